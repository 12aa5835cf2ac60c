#include "memory/pool.h"

#include <catch2/catch.hpp>

#include <random>
#include <thread>

#include "memory/processor_memory.h"
#include "os/permissions.h"

using namespace wherry::impl;

TEST_CASE("a pool never promises more pages than it may hold") {
  Capacity capacity(100);
  CHECK(capacity.try_reserve(60));
  CHECK_FALSE(capacity.try_reserve(41));
  CHECK(capacity.try_reserve(40));
  capacity.give_back(1);
  CHECK(capacity.try_reserve(1));
}

TEST_CASE("room that was not spent goes back, room that was stays taken") {
  Capacity capacity(10);
  {
    Room room;
    REQUIRE(room.try_grow(capacity, 8));
    REQUIRE(room.try_grow(capacity, 4));  // large enough already
    CHECK_FALSE(room.try_grow(capacity, 11));
    room.spend(3);
    CHECK(capacity.reserved() == 8);
  }
  CHECK(capacity.reserved() == 3);
}

TEST_CASE("reservations by several threads never exceed the capacity") {
  Capacity capacity(64);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 50'000; ++i) {
        const std::uint64_t pages = 1 + random() % 40;
        if (!capacity.try_reserve(pages)) continue;
        if (capacity.reserved() > 64) exceeded = true;
        capacity.give_back(pages);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(exceeded);
  CHECK(capacity.reserved() == 0);
}

TEST_CASE("a pool rings when it comes to hold more than it should, once each time") {
  Capacity capacity(100);
  Bell bell;
  capacity.ring_above(90, bell);
  REQUIRE(capacity.try_reserve(90));
  CHECK(bell.rung() == 0);
  REQUIRE(capacity.try_reserve(1));
  REQUIRE(capacity.try_reserve(9));
  CHECK(bell.rung() == 1);
  CHECK_FALSE(capacity.try_reserve(1));
  CHECK(bell.rung() == 1);
  capacity.give_back(20);
  REQUIRE(capacity.try_reserve(15));
  CHECK(bell.rung() == 2);
  bell.wait(1, 60'000);  // it rang since: returns at once
}

TEST_CASE("room in one pool is none in another") {
  Capacity first(100);
  Capacity second(100);
  {
    Room room;
    REQUIRE(room.try_grow(first, 16));
    REQUIRE(room.try_grow(second, 10));
    CHECK(first.reserved() == 0);
    CHECK(second.reserved() == 10);
    CHECK(room.pages() == 10);
    CHECK_FALSE(room.try_grow(first, 101));
    CHECK(second.reserved() == 0);
  }
  CHECK(first.reserved() == 0);
  CHECK(second.reserved() == 0);
}

TEST_CASE("a pool's file is filled where nothing is, and only there") {
  MemoryPoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  std::vector<std::byte> data(2 * page_size, std::byte{7});
  REQUIRE(pool.fill({5, 2}, data.data()));
  CHECK(*pool.alias(5) == std::byte{7});
  CHECK(pool.file().allocated_bytes() == 2 * page_size);
  CHECK(pool.fill({6, 1}, data.data()).status == OpStatus::occupied);
  REQUIRE(pool.fill_zero({7, 1}));
  CHECK(*pool.alias(7) == std::byte{0});
  REQUIRE(pool.punch({5, 1}) == 0);
  REQUIRE(pool.fill_zero({5, 1}));
  CHECK(*pool.alias(5) == std::byte{0});
  CHECK(pool.file().allocated_bytes() == 3 * page_size);
}
