// The matches of one transition: every pattern with every trouble at every step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "stress/match.h"
#include "support/conditions.h"

namespace wherry::test {

// The number of pages from which on a run is moved by a transfer, instead of under its block's
// lock.
inline constexpr unsigned always_transfer = 1;
inline constexpr unsigned never_transfer = impl::pages_per_block + 1;

class Course {
 public:
  // `devices`: as in WHERRY_DEVICES. `steps`: those that the transition consists of; a course that
  // does not reach all of them fails.
  Course(const char* devices, std::vector<Step> steps,
         unsigned transfer_pages_min = always_transfer)
      : rig_(Rig::start(devices, impl::pages_per_region, transfer_pages_min)),
        steps_(std::move(steps)) {}

  Rig& rig() { return rig_; }
  // The course need not reach this step, because the process's trap does not have it.
  void leave_out(Step step) { std::erase(steps_, step); }

  // Plays `shape` with every step and trouble: once where a single read of an old copy is noticed,
  // and once at a random placement. A step that is part of the transition gets every pattern, or
  // some at less than full length; others, which happen by the way, get one. Throws
  // std::runtime_error at the first violation.
  void run(const Match& shape, const std::vector<std::vector<int>>& casts,
           const MatchHooks& hooks = {});

 private:
  template <typename List>
  const typename List::value_type& drawn(const List& list) {
    return list[random_() % list.size()];
  }
  // `count` different random patterns, or all of them if there are fewer.
  std::vector<Pattern> drawn_patterns(std::uint64_t count);
  // Half of the time all processors are in trouble, otherwise one random processor.
  int drawn_processor();
  // A rare step may not have been hit at the chosen processor. Plays more matches until the step is
  // hit.
  void reach(Step step, const Match& shape, const std::vector<std::vector<int>>& casts,
             const MatchHooks& hooks);
  void run_one(const Match& match, const MatchHooks& hooks, const Injection& injection);

  Rig& rig_;
  std::vector<Step> steps_;
  std::array<std::uint64_t, all_steps.size()> hits_{};
  std::uint64_t matches_ = 0;
  std::mt19937_64 random_{seed()};
};

// Runs the course in a process of its own, and requires that it throws nothing and ends in time.
void require_clean(const std::function<void()>& course);

// Whether pools have huge pages. Prints that the course is skipped if they have none.
bool has_huge_pages(Rig& rig);

// How many stages a match plays, for events that happen once in a stage.
std::uint32_t scaled_stages(std::uint32_t stages);

// The places of pages, on a machine with two devices.
inline const std::vector<impl::Location> everywhere{
    impl::Location::device(0), impl::Location::host(), impl::Location::device(1)};

// Which processors play in a match, one for each player.
inline const std::vector<std::vector<int>> casts_of_two_devices{
    {on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}};
inline const std::vector<std::vector<int>> casts_of_one_device{
    {0, 0, on_host}, {0, on_host, 0}, {on_host, 0, 0}, {0, on_host}, {on_host, 0}};

// Prefetches memory to one place after another, in turns.
class Courier {
 public:
  Courier(Rig& rig, std::vector<impl::Location> places) : rig_(rig), places_(std::move(places)) {}

  void take(std::byte* memory, std::size_t bytes) {
    memory_ = memory;
    bytes_ = bytes;
    send();
  }
  void send() { rig_.prefetch(memory_, bytes_, places_[turns_++ % places_.size()]); }

  MatchHooks hooks() {
    return {[this](std::byte* memory, std::size_t bytes) { take(memory, bytes); },
            [this] { send(); }};
  }

 private:
  Rig& rig_;
  const std::vector<impl::Location> places_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned turns_ = 0;
};

}  // namespace wherry::test
