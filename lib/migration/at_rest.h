// For threads that need pages at rest: not in flight. They sleep until transfers end. They wait
// without a limit while the pages are in a live transfer, and a bounded time for anything else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"
#include "base/lock.h"
#include "migration/in_flight_transfers.h"
#include "migration/locked_block.h"

namespace wherry::impl {

// After waiting so long without a live transfer, a waiter ends the process. Time in which the
// process was stopped hardly counts.
inline constexpr std::uint64_t rest_limit_ns = 60'000'000'000;

// Returns when is_at_rest() returns true. `pages`: the pages that it looks at. Not for threads that
// answer faults.
template <typename Predicate>
void wait_for_rest(const InFlightTransfers& transfers, PageSpan pages, const Predicate& is_at_rest,
                   const char* otherwise) {
  constexpr int look_ms = 100;
  constexpr std::uint64_t look_max_ns = 2 * look_ms * std::uint64_t{1'000'000};
  check_wait();
  std::uint64_t in_vain_ns = 0;
  std::uint64_t last_ns = 0;  // of the previous look
  while (in_vain_ns < rest_limit_ns) {
    const std::uint32_t seen = transfers.seen();
    if (is_at_rest()) return;
    const std::uint64_t now = now_ns();
    if (transfers.is_live(pages))
      in_vain_ns = 0;
    else if (last_ns != 0)
      in_vain_ns += std::min(now - last_ns, look_max_ns);
    last_ns = now;
    transfers.wait(seen, look_ms);
  }
  WHERRY_FAIL("{}", otherwise);
}

// Locks the block at a moment when no page of the run is in flight. The caller puts the lock into a
// LockedBlock (std::adopt_lock). Not for threads that answer faults.
inline void lock_at_rest(const InFlightTransfers& transfers, BlockIndex index, Block& block,
                         PageRun run) WHERRY_TSA(acquire_capability(block.lock))
    WHERRY_TSA(no_thread_safety_analysis) {
  const auto is_at_rest = [&]() WHERRY_TSA(no_thread_safety_analysis) {
    block.lock.lock();
    if ((PageMask::of(run) & block.in_flight()).none()) return true;
    block.lock.unlock();
    return false;
  };
  wait_for_rest(transfers, span_of(index, run), is_at_rest, "an in-flight transfer never ended");
}

}  // namespace wherry::impl
