// The minimum residency: how long pages stay with the processor to which a fault brought them, even
// if other processors want them. It lasts until the waiting thread has been woken and a moment
// longer, so that the thread can use the pages. Without it, a page that several processors want
// would be taken away again before the first of them runs.
//
// There is one value for each natural 64 KiB region of a block. It only delays those that would
// take pages away and is no part of the pages' state, so any thread reads and writes it with
// relaxed atomics.
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
  // Several times the time that a woken thread needs until it runs on its CPU.
  static constexpr std::uint64_t residence_ns = 20'000;
  // Limit until the wake. Every resolved fault is followed by a wake; this bounds the delay if one
  // is lost.
  static constexpr std::uint64_t unwoken_limit_ns = 10'000'000;

  // The pages have come. The holder's waiting thread has not been woken yet.
  void begin(PageRun run, Processor holder, std::uint64_t now) {
    for (auto& residency : of(run)) residency.store(pack(now + unwoken_limit_ns, holder), relaxed);
  }
  // The waiting thread has been woken. No effect where another processor holds the region by now.
  void woken(PageRun run, Processor holder, std::uint64_t now) {
    for (auto& residency : of(run)) {
      std::uint32_t value = residency.load(relaxed);
      if (holder_of(value) == holder)
        residency.compare_exchange_strong(value, pack(now + residence_ns, holder), relaxed);
    }
  }
  // Returns when `faulting_processor` may take the pages away. A time up to `now` means at once.
  std::uint64_t end_of(PageRun run, Processor faulting_processor, std::uint64_t now) const {
    std::uint64_t end = 0;
    for (const auto& residency : of(run)) {
      const std::uint32_t value = residency.load(relaxed);
      const std::uint32_t left = ((value >> holder_bits) - tick(now)) & tick_mask;
      // Ticks wrap around every 4 minutes: an end long past must not be taken for one in the
      // future.
      if (holder_of(value) != faulting_processor && left <= tick(unwoken_limit_ns) + 1)
        end = std::max(end, now + left * tick_ns);
    }
    return end;
  }

 private:
  using Residency = std::atomic<std::uint32_t>;  // the end in ticks, and the holder

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
  // The number of regions that the run overlaps.
  static constexpr std::size_t regions(PageRun run) {
    return (run.end() + pages_per_region - 1) / pages_per_region - run.first / pages_per_region;
  }

  std::array<Residency, pages_per_block / pages_per_region> regions_{};
};

}  // namespace wherry::impl
