#include "stress/course.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <stdexcept>

#include "support/catch.h"
#include "support/child.h"

namespace wherry::test {
namespace {

// How long a step is delayed: long enough for the other players to run and read.
constexpr int delay_us = 400;
constexpr int limit_ms = 280'000;

}  // namespace

void Course::run(const Match& shape, const std::vector<std::vector<int>>& casts,
                 const MatchHooks& hooks) {
  for (const Step step : all_steps) {
    const bool is_part = std::ranges::find(steps_, step) != steps_.end();
    // Only the consolidator, samples, and parts of huge pages have these steps.
    const bool is_rare = step == Step::merge || step == Step::forget || step == Step::split;
    if (is_rare && !is_part) continue;
    for (const Trouble trouble : all_troubles) {
      if (!can_happen(step, trouble)) continue;
      for (const Pattern pattern : drawn_patterns(is_part ? scaled(all_patterns.size()) : 1)) {
        for (const Placement placement : {Placement::one_still, drawn(all_placements)}) {
          Match match = shape;
          match.pattern = pattern;
          match.placement = placement;
          match.cast = drawn(casts);
          if (!shape.visitor && random_() % 2 == 0) match.visitor = drawn(match.cast);
          run_one(match, hooks, {step, trouble, drawn_processor(), delay_us});
        }
      }
    }
  }
  for (const Step step : steps_) reach(step, shape, casts, hooks);
  std::printf("%llu matches, %llu pages moved\n", static_cast<unsigned long long>(matches_),
              static_cast<unsigned long long>(rig_.pages_moved()));
}

std::vector<Pattern> Course::drawn_patterns(std::uint64_t count) {
  std::vector<Pattern> patterns;
  std::ranges::sample(all_patterns, std::back_inserter(patterns),
                      static_cast<std::ptrdiff_t>(count), random_);
  return patterns;
}

int Course::drawn_processor() {
  if (random_() % 2 == 0) return -1;
  return static_cast<int>(random_() % static_cast<unsigned>(1 + rig_.runtime().device_count()));
}

void Course::reach(Step step, const Match& shape, const std::vector<std::vector<int>>& casts,
                   const MatchHooks& hooks) {
  constexpr int more_matches = 200;
  for (int i = 0; hits_[static_cast<std::size_t>(step)] == 0; ++i) {
    if (i == more_matches)
      throw std::runtime_error(std::string{"never reached the step "} + to_string(step));
    Match match = shape;
    match.pattern = drawn(all_patterns);
    match.placement = drawn(all_placements);
    match.cast = drawn(casts);
    run_one(match, hooks, {step, Trouble::delay_before, -1, delay_us});
  }
}

void Course::run_one(const Match& match, const MatchHooks& hooks, const Injection& injection) {
  rig_.injector().set(injection);
  const std::string violated = play(rig_, match, hooks);
  hits_[static_cast<std::size_t>(injection.step)] += rig_.injector().hits();
  rig_.injector().set({});
  ++matches_;
  if (!violated.empty())
    throw std::runtime_error(match.describe() + ", " + injection.describe() + ": " + violated);
}

void require_clean(const std::function<void()>& course) {
  const Outcome outcome = in_fresh_process(course, limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
  // Every access of a player is to live memory.
  CHECK(outcome.err.find("it gets SIGBUS or SIGSEGV") == std::string::npos);
}

bool has_huge_pages(Rig& rig) {
  if (rig.runtime().maps_huge_pages()) return true;
  std::printf("skipped: pools have no huge pages here\n");
  return false;
}

std::uint32_t scaled_stages(std::uint32_t stages) {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(2, scaled(stages)));
}

}  // namespace wherry::test
