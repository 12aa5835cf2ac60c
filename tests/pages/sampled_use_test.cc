#include "pages/sampled_use.h"

#include <random>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::sampled_use_test {

using namespace wherry::impl;

namespace {

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);
constexpr Processor other = Processor::device(1);

// Notes samples by this user until the block should move. Returns how many it took.
unsigned samples_until_move(SampledUse& use, Processor user, Processor owner) {
  for (unsigned count = 1; count < 1000; ++count)
    if (use.note(user, owner)) return count;
  return 0;
}

}  // namespace

TEST_CASE("a block moves to the processor that alone uses it, after a few samples") {
  SampledUse use;
  CHECK(samples_until_move(use, device, host) == SampledUse::lead_needed);
}

TEST_CASE("a block stays with its owner while samples find the owner there") {
  SampledUse use;
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(use.note(host, host));
}

TEST_CASE("another processor's samples take a lead away") {
  SampledUse use;
  CHECK_FALSE(use.note(device, host));
  CHECK_FALSE(use.note(device, host));
  CHECK_FALSE(use.note(other, host));
  CHECK_FALSE(use.note(device, host));
  CHECK_FALSE(use.note(host, host));
  CHECK_FALSE(use.note(device, host));
  CHECK(use.note(device, host));
}

TEST_CASE("a block that two processors use alike moves ever more rarely") {
  std::mt19937_64 random{wherry::test::seed()};
  SampledUse use;
  Processor owner = host;
  const auto moves_in = [&](int samples) {
    int moves = 0;
    for (int i = 0; i < samples; ++i) {
      const Processor user = random() % 2 == 0 ? host : device;
      if (!use.note(user, owner)) continue;
      owner = user;
      ++moves;
    }
    return moves;
  };
  moves_in(1000);
  CHECK(moves_in(100'000) < 200);  // with a lead of 3 it would be 8000
}

TEST_CASE("each new phase moves a block as quickly as the first one") {
  SampledUse use;
  for (int phase = 0; phase < 10; ++phase) {
    CHECK(samples_until_move(use, device, host) == SampledUse::lead_needed);
    CHECK_FALSE(use.note(device, device));
    CHECK(samples_until_move(use, host, device) == SampledUse::lead_needed);
  }
}

TEST_CASE("a block is contested while its samples contradict each other") {
  SampledUse use;
  CHECK(samples_until_move(use, device, host) != 0);
  CHECK_FALSE(use.is_contested());
  CHECK_FALSE(use.note(host, device));
  CHECK_FALSE(use.is_contested());
  CHECK_FALSE(use.note(device, device));
  CHECK(use.is_contested());
  for (int i = 0; i < 200; ++i) CHECK_FALSE(use.note(device, device));
  CHECK_FALSE(use.is_contested());
}

TEST_CASE("a block whose use becomes steady moves quickly again") {
  SampledUse use;
  const auto move_against_the_owner = [&] {
    CHECK_FALSE(use.note(device, host));
    CHECK_FALSE(use.note(host, host));
    CHECK(samples_until_move(use, device, host) != 0);
  };
  for (int i = 0; i < 4; ++i) move_against_the_owner();
  CHECK(samples_until_move(use, device, host) > 10 * SampledUse::lead_needed);
  for (int i = 0; i < 200; ++i) CHECK_FALSE(use.note(device, device));
  CHECK(samples_until_move(use, host, device) == SampledUse::lead_needed);
}

}  // namespace wherry::test::sampled_use_test
