#include "memory/capacity.h"

#include "support/catch.h"
#include "support/conditions.h"

#include <random>
#include <thread>
#include <vector>

namespace wherry::test::capacity_test {

using namespace wherry::impl;

TEST_CASE("a pool never reserves more pages than its capacity") {
  Capacity capacity(100);
  CHECK(capacity.try_reserve(60));
  CHECK_FALSE(capacity.try_reserve(41));
  CHECK(capacity.try_reserve(40));
  capacity.give_back(1);
  CHECK(capacity.try_reserve(1));
}

TEST_CASE("unused reserved pages are returned, used ones stay reserved") {
  Capacity capacity(10);
  {
    Reservation reservation;
    REQUIRE(reservation.try_grow(capacity, 8));
    REQUIRE(reservation.try_grow(capacity, 4));  // the reservation is large enough already
    CHECK_FALSE(reservation.try_grow(capacity, 11));
    reservation.spend(3);
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

TEST_CASE("a pool notifies when it exceeds its target, once each time") {
  Capacity capacity(100);
  Notifier notifier;
  capacity.notify_above(90, notifier);
  REQUIRE(capacity.try_reserve(90));
  CHECK(notifier.seen() == 0);
  REQUIRE(capacity.try_reserve(1));
  REQUIRE(capacity.try_reserve(9));
  CHECK(notifier.seen() == 1);
  CHECK_FALSE(capacity.try_reserve(1));
  CHECK(notifier.seen() == 1);
  capacity.give_back(20);
  REQUIRE(capacity.try_reserve(15));
  CHECK(notifier.seen() == 2);
  notifier.wait(1, 60'000);  // it was notified since, so this returns at once
}

TEST_CASE("reserved pages of one pool are not available in another") {
  Capacity first(100);
  Capacity second(100);
  {
    Reservation reservation;
    REQUIRE(reservation.try_grow(first, 16));
    REQUIRE(reservation.try_grow(second, 10));
    CHECK(first.reserved() == 0);
    CHECK(second.reserved() == 10);
    CHECK(reservation.pages() == 10);
    CHECK_FALSE(reservation.try_grow(first, 101));
    CHECK(second.reserved() == 0);
  }
  CHECK(first.reserved() == 0);
  CHECK(second.reserved() == 0);
}

TEST_CASE("freed pages go to the oldest waiting request, and to no younger one") {
  Capacity capacity(100);
  REQUIRE(capacity.try_reserve(100));
  Reservation older;
  Reservation younger;
  CHECK_FALSE(older.join_line(capacity, 30));
  CHECK_FALSE(younger.join_line(capacity, 10));
  capacity.give_back(20);
  CHECK_FALSE(younger.try_grow(capacity, 10));
  CHECK_FALSE(capacity.try_reserve(1));
  CHECK(capacity.reserved() == 100);
  CHECK_FALSE(older.try_grow(capacity, 30));

  CHECK(older.pages_of(capacity) == 20);
  capacity.give_back(15);
  CHECK(older.try_grow(capacity, 30));
  CHECK_FALSE(younger.try_grow(capacity, 10));
  CHECK(younger.pages_of(capacity) == 5);
  capacity.give_back(5);
  CHECK(younger.try_grow(capacity, 10));
  CHECK_FALSE(capacity.try_reserve(1));
  capacity.give_back(1);
  CHECK(capacity.try_reserve(1));
}

TEST_CASE("a request that is given up passes its pages on") {
  Capacity capacity(100);
  REQUIRE(capacity.try_reserve(100));
  Reservation younger;
  {
    Reservation older;
    CHECK_FALSE(older.join_line(capacity, 30));
    CHECK_FALSE(younger.join_line(capacity, 10));
    capacity.give_back(20);
    CHECK_FALSE(older.try_grow(capacity, 30));
  }
  CHECK(younger.try_grow(capacity, 10));
  CHECK(capacity.reserved() == 90);
  younger.release();
  CHECK(capacity.reserved() == 80);
  CHECK(capacity.try_reserve(20));
}

TEST_CASE("a request that needs fewer pages than before passes the rest on, and keeps its age") {
  Capacity capacity(100);
  REQUIRE(capacity.try_reserve(100));
  Reservation older;
  Reservation younger;
  CHECK_FALSE(older.join_line(capacity, 60));
  CHECK_FALSE(younger.join_line(capacity, 10));
  older.release();
  CHECK_FALSE(older.join_line(capacity, 60));
  capacity.give_back(50);
  CHECK(older.join_line(capacity, 40));
  CHECK(younger.try_grow(capacity, 10));
  CHECK(capacity.reserved() == 100);
}

TEST_CASE("an older request that returns takes pages that younger ones have but did not use") {
  Capacity capacity(100);
  REQUIRE(capacity.try_reserve(100));
  Reservation older;
  Reservation younger;
  CHECK_FALSE(older.join_line(capacity, 100));
  CHECK_FALSE(younger.join_line(capacity, 100));
  older.release();
  capacity.give_back(40);
  CHECK_FALSE(younger.join_line(capacity, 100));
  CHECK(younger.pages_of(capacity) == 40);
  CHECK_FALSE(older.join_line(capacity, 100));
  capacity.give_back(60);
  CHECK(older.join_line(capacity, 100));
  CHECK_FALSE(younger.join_line(capacity, 100));
  older.release();
  CHECK(younger.join_line(capacity, 100));
}

TEST_CASE("a request that waits for more keeps its pages in the queue") {
  Capacity capacity(100);
  Reservation older;
  Reservation younger;
  REQUIRE(younger.try_grow(capacity, 70));
  REQUIRE(older.try_grow(capacity, 30));
  CHECK_FALSE(older.join_line(capacity, 60));
  CHECK_FALSE(younger.join_line(capacity, 80));
  CHECK(older.join_line(capacity, 60));
  older.spend(60);
  CHECK_FALSE(younger.join_line(capacity, 80));
  capacity.give_back(60);
  CHECK(younger.join_line(capacity, 80));
  CHECK(capacity.reserved() == 80);
}

TEST_CASE("requests of several threads are all served, and never exceed the capacity") {
  constexpr std::uint64_t pages_max = 64;
  Capacity capacity(pages_max);
  const std::uint64_t rounds = test::scaled(5'000);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const std::uint64_t pages = 1 + random() % pages_max;
        Reservation reservation;
        for (bool waits = true; waits;) {
          waits = !reservation.join_line(capacity, pages);
          if (capacity.reserved() > pages_max) exceeded = true;
          if (!waits) break;
          if (random() % 8 == 0) reservation.release();
          std::this_thread::yield();
        }
        Reservation moved(std::move(reservation));
        const std::uint64_t spent = random() % (pages + 1);
        moved.spend(spent);
        capacity.give_back(spent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(exceeded);
  CHECK(capacity.reserved() == 0);
}

}  // namespace wherry::test::capacity_test
