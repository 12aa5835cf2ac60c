#include "migration/flights.h"

#include <algorithm>
#include <limits>
#include <new>

#include "os/futex.h"
#include "os/thread.h"

namespace wherry::impl {

void Flights::begun(PageSpan pages) {
  const std::uint32_t thread = this_thread_id();
  const LockGuard guard(lock_);
  try {
    flights_.push_back({pages, thread});
  } catch (const std::bad_alloc&) {
  }
}

void Flights::landed(PageSpan pages) {
  {
    const LockGuard guard(lock_);
    const auto found = std::ranges::find_if(flights_, [&](const Flight& flight) {
      return flight.pages.first == pages.first && flight.pages.count == pages.count;
    });
    if (found != flights_.end()) {
      *found = flights_.back();
      flights_.pop_back();
    }
  }
  announce();
}

bool Flights::is_carried(PageSpan pages, std::uint32_t except) const {
  const LockGuard guard(lock_);
  return std::ranges::any_of(flights_, [&](const Flight& flight) {
    return !intersect(flight.pages, pages).empty() && flight.thread != except &&
           thread_exists(flight.thread);
  });
}

void Flights::announce() {
  announced_.fetch_add(1);
  // Sequentially consistent: a sleeper that this look misses has not slept yet, and sees the new
  // value.
  if (sleepers_.load() != 0) futex_wake(announced_, std::numeric_limits<int>::max());
}

void Flights::wait(std::uint32_t seen, int limit_ms) const {
  sleepers_.fetch_add(1);
  futex_wait(announced_, seen, limit_ms);
  sleepers_.fetch_sub(1);
}

}  // namespace wherry::impl
