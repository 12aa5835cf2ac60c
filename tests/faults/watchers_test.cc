#include "faults/watchers.h"

#include <catch2/catch.hpp>

#include <thread>
#include <vector>

#include "os/process/poll.h"

using namespace wherry::impl;

namespace {

bool is_kicked(const Watchers& watchers, std::size_t handler) {
  return drain_eventfd(watchers.kick(handler)) != 0;
}

// Within so many milliseconds.
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

TEST_CASE("a handler whose answer takes long calls up one that rests, if none watches") {
  Watchers watchers(3, 1);
  REQUIRE(watchers.try_rest(1));
  REQUIRE(watchers.try_rest(2));
  watchers.begin_answer();
  watchers.call_up_if_none_watches();
  CHECK(watchers.is_called_up(1));
  CHECK(is_kicked(watchers, 1));
  CHECK_FALSE(watchers.is_called_up(2));
  // Handler 1 watches now, although it may not be awake yet.
  watchers.call_up_if_none_watches();
  CHECK_FALSE(watchers.is_called_up(2));
  CHECK_FALSE(is_kicked(watchers, 2));
  watchers.end_answer();
  CHECK(watchers.try_rest(0));
  CHECK_FALSE(watchers.try_rest(1));
}

TEST_CASE("a watcher that finds more faults than it answers shares them") {
  Watchers watchers(3, 1);
  REQUIRE(watchers.try_rest(1));
  REQUIRE(watchers.try_rest(2));
  watchers.share_work();
  CHECK(watchers.is_called_up(1));
  // Two watch: a third one is not needed until both answer.
  watchers.share_work();
  CHECK_FALSE(watchers.is_called_up(2));
  watchers.begin_answer();
  watchers.share_work();
  CHECK(watchers.is_called_up(2));
}

TEST_CASE("the guard expires during an answer if no handler watches") {
  Watchers watchers(2, 1);
  REQUIRE(watchers.try_rest(1));
  for (int answer = 0; answer < 2; ++answer) {
    watchers.begin_answer();
    CHECK(is_guard_readable(watchers, 10'000));
    watchers.end_answer();
  }
}

TEST_CASE("the guard does not expire if another handler watches, or none rests") {
  Watchers watchers(3, 2);
  watchers.begin_answer();
  watchers.begin_answer();
  watchers.begin_answer();
  for (int i = 0; i < 3; ++i) watchers.end_answer();
  REQUIRE(watchers.try_rest(2));
  watchers.begin_answer();
  watchers.end_answer();
  CHECK_FALSE(is_guard_readable(watchers, 20));
}

TEST_CASE("without handlers that rest nothing happens") {
  Watchers watchers(1, 1);
  CHECK_FALSE(watchers.try_rest(0));
  watchers.begin_answer();
  watchers.call_up_if_none_watches();
  CHECK_FALSE(is_kicked(watchers, 0));
  watchers.tell_all();
  CHECK(is_kicked(watchers, 0));
}

TEST_CASE("handlers that rest and are called up all the time leave at least one that watches") {
  constexpr int handlers = 4;
  constexpr int rounds = 20'000;
  Watchers watchers(handlers, 1);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < handlers; ++i)
    threads.emplace_back([&, i] {
      bool watches = true;
      for (int round = 0; round < rounds; ++round) {
        if (!watches) {
          watches = watchers.is_called_up(i);
          continue;
        }
        watchers.begin_answer();
        watchers.call_up_if_none_watches();
        watchers.end_answer();
        watches = !watchers.try_rest(i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  int watching = 0;
  for (std::size_t i = 0; i < handlers; ++i) watching += watchers.is_called_up(i) ? 1 : 0;
  CHECK(watching >= 1);
  // Their number is known: all but one may rest.
  for (std::size_t i = 0; i < handlers; ++i)
    if (watching > 1 && watchers.is_called_up(i) && watchers.try_rest(i)) --watching;
  CHECK(watching == 1);
}
