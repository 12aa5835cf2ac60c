#include "faults/sample_pace.h"

#include "support/catch.h"

namespace wherry::test::sample_pace_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t blocks_max = 16;

// Rounds that show nothing new, until the pace no longer falls. Returns how many it took.
int rounds_until_settled(SamplePace& pace) {
  int rounds = 0;
  for (int pause = 0; pause != pace.pause_ms() && rounds < 1000; ++rounds) {
    pause = pace.pause_ms();
    pace.begin_round(0, 0);
  }
  return rounds;
}

}  // namespace

TEST_CASE("samples begin at the high pace, and become rarer and fewer while they show nothing") {
  SamplePace pace(blocks_max);
  CHECK(pace.blocks() == blocks_max);
  const int first = pace.pause_ms();
  CHECK(rounds_until_settled(pace) < 50);
  CHECK(pace.pause_ms() >= 20 * first);
  CHECK(pace.blocks() == 2);
}

TEST_CASE("a surprise raises the pace at once, at any time") {
  SamplePace pace(blocks_max);
  const int first = pace.pause_ms();
  rounds_until_settled(pace);
  for (std::uint64_t surprises = 1; surprises < 4; ++surprises) {
    pace.begin_round(surprises, 0);
    CHECK(pace.pause_ms() == first);
    CHECK(pace.blocks() == blocks_max);
  }
}

TEST_CASE("a phase raises the pace if it has settled") {
  SamplePace pace(blocks_max);
  const int first = pace.pause_ms();
  rounds_until_settled(pace);
  pace.begin_round(0, 1);
  CHECK(pace.pause_ms() == first);
}

TEST_CASE("a program that marks phases all the time is rarely sampled at the high pace") {
  SamplePace pace(blocks_max);
  std::uint64_t ms = 0, blocks = 0;
  for (std::uint64_t phases = 0; ms < 100'000; ++phases) {
    pace.begin_round(0, phases);
    blocks += pace.blocks();
    ms += static_cast<std::uint64_t>(pace.pause_ms());
  }
  CHECK(blocks < ms / 4);  // at the high pace it would be 4 in each millisecond
}

}  // namespace wherry::test::sample_pace_test
