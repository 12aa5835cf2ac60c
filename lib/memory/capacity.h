// How many pages a pool may hold, how many are reserved, and which requests wait for pages.
//
// Conservation law: pages in the file <= reserved <= capacity, at every instant. A page is reserved
// before it is populated, and given back after it was punched.
//
// Order: a request that finds the pool full joins the pool's line (Reservation::join_line). While
// requests wait in the line, freed pages go to the oldest of them, and no other request gets any.
// So an eviction works for the line: the pages that it frees go to the oldest request first, the
// rest to the next ones. A request that has all its pages leaves the line at its next call. When a
// request is given up, its pages go to the requests behind it.
//
// No deadlock: a waiting request leaves its pages with the line, and an older request takes them
// when it calls again. So the oldest request waits only for pages that are in use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "os/memory/mapped_memory.h"
#include "os/process/futex.h"

namespace wherry::impl {

// Wakes one sleeping thread when there may be work for it. Any thread may call.
class Notifier {
 public:
  void notify() {
    sequence_.fetch_add(1, std::memory_order_release);  // pairs with seen()
    futex_wake(sequence_, 1);
  }
  // The caller reads seen() before it looks for work. wait() returns at once if notify() was called
  // since.
  std::uint32_t seen() const { return sequence_.load(std::memory_order_acquire); }
  void wait(std::uint32_t seen, int limit_ms) const { futex_wait(sequence_, seen, limit_ms); }

 private:
  std::atomic<std::uint32_t> sequence_{0};
};

// Any thread may call.
class Capacity {
 public:
  // `reserved`: where the number of reserved pages is kept, initially 0; null: in this object.
  explicit Capacity(std::uint64_t pages, std::atomic<std::uint64_t>* reserved = nullptr)
      : pages_(pages), reserved_(reserved == nullptr ? own_reserved_ : *reserved) {}

  // From now on `notifier` is notified whenever the number of reserved pages rises above `pages`.
  // `notifier` must outlive this object. To be called before any other thread uses this object.
  void notify_above(std::uint64_t pages, Notifier& notifier) {
    notify_above_ = pages;
    notifier_ = &notifier;
  }

  std::uint64_t pages() const { return pages_; }
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // Returns false if the pool is too full, or if older requests wait.
  [[nodiscard]] bool try_reserve(std::uint64_t pages);
  void give_back(std::uint64_t pages) EXCLUDES(lock_);

  // Counts reserved pages that belong to no block. Eviction cannot free them; their owner gives
  // them back.
  void keep(std::uint64_t pages) { kept_.fetch_add(pages, std::memory_order_relaxed); }
  void give_kept_back(std::uint64_t pages) {
    kept_.fetch_sub(pages, std::memory_order_relaxed);
    give_back(pages);
  }
  std::uint64_t kept() const { return kept_.load(std::memory_order_relaxed); }

  // The age of a request: a smaller ticket is older. A request keeps its ticket when it tries
  // again.
  std::uint64_t draw_ticket() { return tickets_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // The request hands its `brought` pages to the line, and waits there for `wanted` in all. Returns
  // `wanted` if the request has all of them now, and so has left the line. Returns 0 if it waits;
  // the line keeps its pages. Returns `brought` if there is no memory to record the request.
  std::uint64_t wait_for(std::uint64_t ticket, std::uint64_t wanted, std::uint64_t brought)
      EXCLUDES(lock_);
  // How many pages the line holds for this request.
  std::uint64_t pages_for(std::uint64_t ticket) const EXCLUDES(lock_);
  // The request no longer waits. The pages that the line held for it go to the next requests.
  void leave_line(std::uint64_t ticket) EXCLUDES(lock_);
  // Counts pages that became free while requests waited, or that were handed to them. If this
  // number does not change, waiting is in vain.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  struct Waiter {
    std::uint64_t ticket;
    std::uint64_t wanted;
    std::uint64_t got;  // reserved for this request so far

    std::uint64_t missing() const { return wanted - got; }
  };
  // The line's memory is not malloc's: fault handlers make requests, and the faulting thread may
  // hold malloc's lock.
  using Line = std::pmr::vector<Waiter>;

  // Reserves as many pages as are free, at most `most`, and returns their number.
  std::uint64_t reserve_some(std::uint64_t most);
  void unreserve(std::uint64_t pages);
  void notify_if_crossed(std::uint64_t before, std::uint64_t now);
  // Gives free pages, and pages held for younger requests, to the oldest request first.
  void hand_out() REQUIRES(lock_);
  // Returns null if the request is not in the line.
  const Waiter* find(std::uint64_t ticket) const REQUIRES(lock_);
  Line::iterator place_of(std::uint64_t ticket) REQUIRES(lock_);

  const std::uint64_t pages_;
  std::uint64_t notify_above_ = 0;
  Notifier* notifier_ = nullptr;
  std::atomic<std::uint64_t> own_reserved_{0};
  std::atomic<std::uint64_t>& reserved_;
  std::atomic<std::uint64_t> kept_{0};
  std::atomic<std::uint64_t> tickets_{0};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> has_line_{false};  // written under lock_
  mutable Mutex lock_{LockOrder::capacity};
  Line line_ GUARDED_BY(lock_) = Line(&mapped_memory());  // oldest first
};

// Pages of a pool that are reserved and not yet spent, or a place in the pool's line while pages
// are missing. The destructor gives back the rest. One thread at a time.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Capacity& capacity, std::uint64_t pages) : capacity_(&capacity), pages_(pages) {}
  Reservation(Reservation&& other) noexcept
      : capacity_(std::exchange(other.capacity_, nullptr)),
        pages_(std::exchange(other.pages_, 0)),
        ticket_(std::exchange(other.ticket_, 0)),
        waits_(std::exchange(other.waits_, false)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(capacity_, other.capacity_);
    std::swap(pages_, other.pages_);
    std::swap(ticket_, other.ticket_);
    std::swap(waits_, other.waits_);
    return *this;
  }
  ~Reservation() { release(); }

  // Pages that can be spent; 0 while the request waits in the line.
  std::uint64_t pages() const { return pages_; }
  // Pages of this capacity that are reserved for the request, including those that the line holds.
  std::uint64_t pages_of(const Capacity& capacity) const {
    if (capacity_ != &capacity) return 0;
    return pages_ + (waits_ ? capacity.pages_for(ticket_) : 0);
  }
  // Grows the reservation to at least `pages` pages of `capacity`. Returns false if the pool is too
  // full, or if it is not this request's turn.
  [[nodiscard]] bool try_grow(Capacity& capacity, std::uint64_t pages);
  // Calls try_grow(). If that fails, the request waits in the pool's line from now on.
  [[nodiscard]] bool join_line(Capacity& capacity, std::uint64_t pages);
  // Gives back all pages and the place in the line. The ticket stays, so the request keeps its age.
  void release();
  // Notes that these pages were created. They stay reserved until they leave the pool.
  void spend(std::uint64_t pages) { pages_ -= pages; }

 private:
  Capacity* capacity_ = nullptr;
  std::uint64_t pages_ = 0;
  std::uint64_t ticket_ = 0;  // 0: none was drawn
  bool waits_ = false;        // true: the request is in the line
};

}  // namespace wherry::impl
