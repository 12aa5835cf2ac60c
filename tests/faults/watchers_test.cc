#include "faults/watchers.h"

#include <array>
#include <thread>
#include <vector>

#include "os/process/poll.h"
#include "support/catch.h"

namespace wherry::test::watchers_test {

using namespace wherry::impl;

namespace {

bool is_kicked(const Watchers& watchers, std::size_t handler) {
  return drain_eventfd(watchers.kick(handler)) != 0;
}

// Whether the guard's event comes within `limit_ms`.
bool is_guard_readable(const Watchers& watchers, int limit_ms) {
  pollfd guard{watchers.guard().get(), POLLIN, 0};
  return poll_descriptors({&guard, 1}, limit_ms) > 0 && drain_eventfd(watchers.guard()) != 0;
}

}  // namespace

TEST_CASE("handlers rest until as few watch as may wait for faults") {
  Watchers watchers(4, 2);
  CHECK(watchers.try_rest(3));
  CHECK(watchers.try_rest(1));
  CHECK_FALSE(watchers.try_rest(0));
  CHECK_FALSE(watchers.try_rest(2));
  CHECK_FALSE(watchers.is_called_up(3));
  CHECK_FALSE(watchers.is_called_up(1));
}

TEST_CASE(
    "during an answer beside which no handler watches the guard calls up one after the other") {
  Watchers watchers(3, 1);
  REQUIRE(watchers.try_rest(1));
  REQUIRE(watchers.try_rest(2));
  watchers.begin_answer();
  REQUIRE(is_guard_readable(watchers, 10'000));
  watchers.look();
  CHECK(is_kicked(watchers, 1));
  CHECK_FALSE(is_kicked(watchers, 2));
  // Handler 1 is busy, and does not begin to watch.
  REQUIRE(is_guard_readable(watchers, 10'000));
  watchers.look();
  CHECK(is_kicked(watchers, 2));
  CHECK(watchers.is_called_up(2));
  // Now handler 2 watches.
  REQUIRE(is_guard_readable(watchers, 10'000));
  watchers.look();
  CHECK_FALSE(is_guard_readable(watchers, 20));
  CHECK(watchers.is_called_up(1));
  watchers.end_answer();
  CHECK(watchers.try_rest(0));
  CHECK(watchers.try_rest(1));
  CHECK_FALSE(watchers.try_rest(2));
}

TEST_CASE("the guard looks again after it was told to look early") {
  Watchers watchers(2, 1);
  REQUIRE(watchers.try_rest(1));
  watchers.begin_answer();
  watchers.end_answer();
  watchers.tell_all();
  REQUIRE(is_guard_readable(watchers, 10'000));
  watchers.look();
  watchers.begin_answer();
  CHECK(is_guard_readable(watchers, 10'000));
}

TEST_CASE(
    "a watcher that finds more faults than it answers shares them with one handler at a time") {
  Watchers watchers(4, 1);
  for (std::size_t i = 1; i < 4; ++i) REQUIRE(watchers.try_rest(i));
  watchers.share_work();
  CHECK(is_kicked(watchers, 1));
  // Until handler 1 watches no other one is called.
  watchers.share_work();
  CHECK_FALSE(is_kicked(watchers, 2));
  CHECK(watchers.is_called_up(1));
  watchers.share_work();
  CHECK_FALSE(is_kicked(watchers, 2));
  // Two handlers watch, and one of them answers a fault.
  watchers.begin_answer();
  watchers.share_work();
  CHECK(is_kicked(watchers, 2));
}

TEST_CASE("the guard is not set if another handler watches, or none may rest") {
  Watchers two(3, 2);
  REQUIRE(two.try_rest(2));
  two.begin_answer();
  CHECK_FALSE(is_guard_readable(two, 20));
  Watchers all(2, 2);
  all.begin_answer();
  all.begin_answer();
  CHECK_FALSE(is_guard_readable(all, 20));
}

TEST_CASE("handlers that rest and are called up all the time leave at least one that watches") {
  constexpr int handlers = 4;
  constexpr int rounds = 20'000;
  Watchers watchers(handlers, 1);
  std::array<bool, handlers> watches{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < handlers; ++i)
    threads.emplace_back([&, i] {
      bool watching = true;
      for (int round = 0; round < rounds; ++round) {
        if (!watching) {
          watching = watchers.is_called_up(i);
          continue;
        }
        watchers.begin_answer();
        watchers.look();
        watchers.end_answer();
        watchers.share_work();
        watching = !watchers.try_rest(i);
      }
      watches[i] = watching;
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < handlers; ++i) watches[i] = watches[i] || watchers.is_called_up(i);
  // All but one may rest.
  int left = 0;
  for (std::size_t i = 0; i < handlers; ++i)
    if (watches[i] && !watchers.try_rest(i)) ++left;
  CHECK(left == 1);
  // None is called up that does not rest.
  watchers.begin_answer();
  watchers.look();
  int called = 0;
  for (std::size_t i = 0; i < handlers; ++i) called += is_kicked(watchers, i) ? 1 : 0;
  CHECK(called >= 1);
}

}  // namespace wherry::test::watchers_test
