// How long pages stay with the processor that a fault brought them to, whoever else wants them: until
// the thread that waited for them has been woken, and a moment more, so that it gets to use them.
// Without it a page that several processors want is taken away again before the first of them runs.
//
// One tenure for each natural 64 KiB region of a block. A bound for those who would take pages away,
// not a state of theirs: relaxed atomics, written and read by anybody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/page_mask.h"

namespace wherry::impl {

class Tenures {
 public:
  // Several times what a woken thread needs to get going on its own CPU.
  static constexpr std::uint64_t residence_ns = 20'000;
  // A wake follows every answer; this bounds what a lost one could cost the others.
  static constexpr std::uint64_t unwoken_limit_ns = 10'000'000;

  // The pages have come, and who waits for them has not been woken yet.
  void begin(PageRun run, std::uint64_t now) { set(run, now + unwoken_limit_ns); }
  // ... now it has.
  void woken(PageRun run, std::uint64_t now) { set(run, now + residence_ns); }
  // When the pages may be taken away; at most `now`: at once.
  std::uint64_t end_of(PageRun run, std::uint64_t now) const {
    std::uint64_t end = 0;
    for (unsigned region = first_of(run); region < end_region(run); ++region) {
      const std::uint32_t left = ends_[region].load(std::memory_order_relaxed) - tick(now);
      // Ticks come round again every 70 minutes: an old one must not be taken for one to come.
      if (left <= tick(unwoken_limit_ns) + 1) end = std::max(end, now + left * tick_ns);
    }
    return end;
  }

 private:
  static constexpr std::uint64_t tick_ns = 1024;

  static constexpr std::uint32_t tick(std::uint64_t ns) {
    return static_cast<std::uint32_t>(ns / tick_ns);
  }
  static constexpr unsigned first_of(PageRun run) { return run.first / pages_per_region; }
  static constexpr unsigned end_region(PageRun run) {
    return (run.end() + pages_per_region - 1) / pages_per_region;
  }
  void set(PageRun run, std::uint64_t end) {
    for (unsigned region = first_of(run); region < end_region(run); ++region)
      ends_[region].store(tick(end), std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint32_t>, pages_per_block / pages_per_region> ends_{};
};

}  // namespace wherry::impl
