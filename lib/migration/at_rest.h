// For threads that need pages as they are, not on their way. They sleep until flights land: as long
// as a live flight carries what they wait for they wait without a limit, and a bounded time for
// anything else.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"
#include "base/lock.h"
#include "migration/in_flight_transfers.h"
#include "pages/block.h"

namespace wherry::impl {

// What a flight that never lands may cost, in time in which the waiter ran, before the process is
// ended.
inline constexpr std::uint64_t rest_limit_ns = 60'000'000'000;

// Returns when is_at_rest() says so, which concerns these pages. Not for threads that answer
// faults.
template <typename Predicate>
void wait_for_rest(const InFlightTransfers& transfers, PageSpan pages, const Predicate& is_at_rest,
                   const char* otherwise) {
  constexpr int look_ms = 100;
  constexpr std::uint64_t look_max_ns = 2 * look_ms * std::uint64_t{1'000'000};
  check_wait();
  std::uint64_t in_vain_ns = 0;
  std::uint64_t last_ns = 0;  // of the look before
  while (in_vain_ns < rest_limit_ns) {
    const std::uint32_t seen = transfers.seen();
    if (is_at_rest()) return;
    const std::uint64_t now = now_ns();
    if (transfers.is_carried(pages))
      in_vain_ns = 0;
    else if (last_ns != 0)
      in_vain_ns += std::min(now - last_ns, look_max_ns);
    last_ns = now;
    transfers.wait(seen, look_ms);
  }
  WHERRY_FAIL("{}", otherwise);
}

// Locks the block at a moment when nothing of the run is in flight. Not for threads that answer
// faults.
class WHERRY_TSA(scoped_lockable) RestGuard {
 public:
  RestGuard(const InFlightTransfers& transfers, Block& block, std::uint64_t number, PageRun run)
      WHERRY_TSA(acquire_capability(block.lock)) WHERRY_TSA(no_thread_safety_analysis)
      : block_(block) {
    wait_for_rest(
        transfers, span_of(number, run),
        [&]() WHERRY_TSA(no_thread_safety_analysis) {
          block_.lock.lock();
          if ((PageMask::of(run) & block_.in_flight()).none()) return true;
          block_.lock.unlock();
          return false;
        },
        "a flight never landed");
  }
  ~RestGuard() WHERRY_TSA(release_capability()) { block_.lock.unlock(); }
  RestGuard(const RestGuard&) = delete;
  RestGuard& operator=(const RestGuard&) = delete;

 private:
  Block& block_;
};

}  // namespace wherry::impl
