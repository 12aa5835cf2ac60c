#include "migration/in_flight_transfers.h"

#include <algorithm>
#include <limits>
#include <new>

#include "os/process/futex.h"
#include "os/process/thread.h"

namespace wherry::impl {

void InFlightTransfers::begun(PageSpan pages) {
  const std::uint32_t thread = this_thread_id();
  const LockGuard guard(lock_);
  try {
    transfers_.push_back({pages, thread});
  } catch (const std::bad_alloc&) {
  }
}

void InFlightTransfers::ended(PageSpan pages) {
  const std::uint32_t thread = this_thread_id();
  {
    const LockGuard guard(lock_);
    const auto found = std::ranges::find_if(transfers_, [&](const Live& transfer) {
      return transfer.pages.first == pages.first && transfer.pages.count == pages.count &&
             transfer.thread == thread;
    });
    if (found != transfers_.end()) {
      *found = transfers_.back();
      transfers_.pop_back();
    }
  }
  announce();
}

bool InFlightTransfers::is_live(PageSpan pages, std::uint32_t except) const {
  const LockGuard guard(lock_);
  return std::ranges::any_of(transfers_, [&](const Live& transfer) {
    return !intersect(transfer.pages, pages).empty() && transfer.thread != except &&
           thread_exists(transfer.thread);
  });
}

void InFlightTransfers::announce() {
  announced_.fetch_add(1);
  // Sequentially consistent: a thread that is not counted yet sees the new value, and does not
  // sleep.
  if (sleepers_.load() != 0) futex_wake(announced_, std::numeric_limits<int>::max());
}

void InFlightTransfers::wait(std::uint32_t seen, int limit_ms) const {
  sleepers_.fetch_add(1);
  futex_wait(announced_, seen, limit_ms);
  sleepers_.fetch_sub(1);
}

}  // namespace wherry::impl
