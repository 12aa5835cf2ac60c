#include "base/patience.h"

#include "support/catch.h"

namespace wherry::test::patience_test {

namespace {

using namespace wherry::impl;

constexpr std::uint64_t second = 1'000'000'000;

std::uint64_t fake_now = 0;
std::uint64_t fake_clock() {
  return fake_now;
}

struct LimitsLifted {
  LimitsLifted() { apply_wait_limits(false); }
  ~LimitsLifted() { apply_wait_limits(true); }
};

}  // namespace

TEST_CASE("a waiter that checks after each slice reaches its limit on time") {
  fake_now = 7 * second;
  Patience patience(second, AtLimit::fails, fake_clock);
  int looks = 0;
  for (; !patience.is_over(); ++looks) {
    REQUIRE(patience.next_slice_ns() > 0);
    fake_now += patience.next_slice_ns();
    patience.note_wait();
  }
  CHECK(fake_now == 8 * second);
  CHECK(looks == second / wait_slice_ns);
  CHECK(patience.next_slice_ns() == 0);
}

TEST_CASE("the last slice is the rest of the limit") {
  Patience patience(wait_slice_ns + 1'500'000, AtLimit::fails, fake_clock);
  CHECK(patience.next_slice_ns() == wait_slice_ns);
  fake_now += wait_slice_ns;
  patience.note_wait();
  CHECK(patience.next_slice_ns() == 1'500'000);
  CHECK(patience.next_slice_ms() == 2);
}

TEST_CASE("time in which the process was stopped counts as at most one slice") {
  Patience patience(second, AtLimit::fails, fake_clock);
  fake_now += 3'600 * second;
  patience.note_wait();
  CHECK(patience.waited_ns() == look_max_ns);
  CHECK_FALSE(patience.is_over());
}

TEST_CASE("a wait that is excluded does not count") {
  WaitedTime waited(fake_clock);
  fake_now += 1'000;
  waited.skip_wait();
  fake_now += 10;
  waited.note_wait();
  CHECK(waited.ns() == 10);
}

TEST_CASE("limits that end in a failure can be disabled, others cannot") {
  Patience fails(second, AtLimit::fails, fake_clock);
  Patience goes_on(second, AtLimit::goes_on, fake_clock);
  for (int i = 0; i < 100; ++i) {
    fake_now += wait_slice_ns;
    fails.note_wait();
    goes_on.note_wait();
  }
  CHECK(fails.is_over());
  CHECK(goes_on.is_over());
  const LimitsLifted lifted;
  CHECK_FALSE(fails.is_over());
  CHECK(fails.next_slice_ns() == wait_slice_ns);
  CHECK(goes_on.is_over());
}

}  // namespace wherry::test::patience_test
