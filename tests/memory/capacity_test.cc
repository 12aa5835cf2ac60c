#include "memory/capacity.h"

#include "support/catch.h"
#include "support/conditions.h"

#include <random>
#include <thread>
#include <vector>

namespace wherry::test::capacity_test {

using namespace wherry::impl;

namespace {

// A pool without free pages, and two requests that wait for some.
struct Line {
  Line(std::uint64_t older_pages, std::uint64_t younger_pages) {
    REQUIRE(capacity.try_reserve(100));
    CHECK_FALSE(older.join_line(capacity, older_pages));
    CHECK_FALSE(younger.join_line(capacity, younger_pages));
  }

  Capacity capacity{100};
  Reservation older;
  Reservation younger;
};

// Four threads call step(random, exceeded), which gives back all that it reserves, and notes if
// more than the capacity is reserved.
template <typename Step>
void check_threads(const Capacity& capacity, std::uint64_t rounds, const Step& step) {
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (std::uint64_t i = 0; i < rounds; ++i) step(random, exceeded);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(exceeded);
  CHECK(capacity.reserved() == 0);
}

}  // namespace

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
  check_threads(capacity, 50'000, [&](std::mt19937& random, std::atomic<bool>& exceeded) {
    const std::uint64_t pages = 1 + random() % 40;
    if (!capacity.try_reserve(pages)) return;
    if (capacity.reserved() > 64) exceeded = true;
    capacity.give_back(pages);
  });
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
  Line s(30, 10);
  s.capacity.give_back(20);
  CHECK_FALSE(s.younger.try_grow(s.capacity, 10));
  CHECK_FALSE(s.capacity.try_reserve(1));
  CHECK(s.capacity.reserved() == 100);
  CHECK_FALSE(s.older.try_grow(s.capacity, 30));

  CHECK(s.older.pages_of(s.capacity) == 20);
  s.capacity.give_back(15);
  CHECK(s.older.try_grow(s.capacity, 30));
  CHECK_FALSE(s.younger.try_grow(s.capacity, 10));
  CHECK(s.younger.pages_of(s.capacity) == 5);
  s.capacity.give_back(5);
  CHECK(s.younger.try_grow(s.capacity, 10));
  CHECK_FALSE(s.capacity.try_reserve(1));
  s.capacity.give_back(1);
  CHECK(s.capacity.try_reserve(1));
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
  Line s(60, 10);
  s.older.release();
  CHECK_FALSE(s.older.join_line(s.capacity, 60));
  s.capacity.give_back(50);
  CHECK(s.older.join_line(s.capacity, 40));
  CHECK(s.younger.try_grow(s.capacity, 10));
  CHECK(s.capacity.reserved() == 100);
}

TEST_CASE("an older request that returns takes pages that younger ones have but did not use") {
  Line s(100, 100);
  s.older.release();
  s.capacity.give_back(40);
  CHECK_FALSE(s.younger.join_line(s.capacity, 100));
  CHECK(s.younger.pages_of(s.capacity) == 40);
  CHECK_FALSE(s.older.join_line(s.capacity, 100));
  s.capacity.give_back(60);
  CHECK(s.older.join_line(s.capacity, 100));
  CHECK_FALSE(s.younger.join_line(s.capacity, 100));
  s.older.release();
  CHECK(s.younger.join_line(s.capacity, 100));
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
  check_threads(capacity, scaled(5'000), [&](std::mt19937& random, std::atomic<bool>& exceeded) {
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
  });
}

}  // namespace wherry::test::capacity_test
