// How long pages stay with the processor that a fault brought them to, or for, whoever else wants
// them: until the thread that waited for them has been woken, and a moment more, so that it gets to
// use them. Without it a page that several processors want is taken away again before the first of
// them runs.
//
// One tenure for each natural 64 KiB region of a block. A bound for those who would take pages
// away, not a state of theirs: relaxed atomics, written and read by anybody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/page_mask.h"
#include "base/processor.h"

namespace wherry::impl {

class MinimumResidency {
 public:
  // Several times what a woken thread needs to get going on its own CPU.
  static constexpr std::uint64_t residence_ns = 20'000;
  // A wake follows every answer; this bounds what a lost one could cost the others.
  static constexpr std::uint64_t unwoken_limit_ns = 10'000'000;

  // The pages have come, and the holder's thread that waits for them has not been woken yet.
  void begin(PageRun run, Processor holder, std::uint64_t now) {
    for (auto& residency : of(run)) residency.store(pack(now + unwoken_limit_ns, holder), relaxed);
  }
  // ... now it has. Nothing if others have them by now.
  void woken(PageRun run, Processor holder, std::uint64_t now) {
    for (auto& residency : of(run)) {
      std::uint32_t value = residency.load(relaxed);
      if (holder_of(value) == holder)
        residency.compare_exchange_strong(value, pack(now + residence_ns, holder), relaxed);
    }
  }
  // When `toucher` may take the pages away; at most `now`: at once.
  std::uint64_t end_of(PageRun run, Processor faulting_processor, std::uint64_t now) const {
    std::uint64_t end = 0;
    for (const auto& residency : of(run)) {
      const std::uint32_t value = residency.load(relaxed);
      const std::uint32_t left = ((value >> holder_bits) - tick(now)) & tick_mask;
      // Ticks come round again every 4 minutes: an old one must not be taken for one to come.
      if (holder_of(value) != faulting_processor && left <= tick(unwoken_limit_ns) + 1)
        end = std::max(end, now + left * tick_ns);
    }
    return end;
  }

 private:
  using Residency = std::atomic<std::uint32_t>;  // when it ends, in ticks, and whose it is

  static constexpr auto relaxed = std::memory_order_relaxed;
  static constexpr std::uint64_t tick_ns = 1024;
  static constexpr unsigned holder_bits = 4;
  static constexpr std::uint32_t tick_mask = ~std::uint32_t{0} >> holder_bits;
  static_assert(max_processors <= 1 << holder_bits);

  static constexpr std::uint32_t tick(std::uint64_t ns) {
    return static_cast<std::uint32_t>(ns / tick_ns) & tick_mask;
  }
  static constexpr std::uint32_t pack(std::uint64_t end, Processor holder) {
    return tick(end) << holder_bits | static_cast<std::uint32_t>(holder.index);
  }
  static constexpr Processor holder_of(std::uint32_t residency) {
    return {static_cast<int>(residency & ((1u << holder_bits) - 1))};
  }
  std::span<Residency> of(PageRun run) {
    return std::span(regions_).subspan(run.first / pages_per_region, regions(run));
  }
  std::span<const Residency> of(PageRun run) const {
    return std::span(regions_).subspan(run.first / pages_per_region, regions(run));
  }
  // How many regions the run touches.
  static constexpr std::size_t regions(PageRun run) {
    return (run.end() + pages_per_region - 1) / pages_per_region - run.first / pages_per_region;
  }

  std::array<Residency, pages_per_block / pages_per_region> regions_{};
};

}  // namespace wherry::impl
