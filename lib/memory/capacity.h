// How many pages a pool may hold, how many are reserved, and which requests wait for pages.
//
// Conservation: pages in the file <= reserved <= capacity, at every instant. A page is reserved
// before it is populated, and given back after it was punched.
//
// Order: a request that finds the pool full joins the pool's line (Room::join_line). While requests
// wait in the line, pages that come free go to the oldest of them, and no other request gets any.
// So an eviction works for the line: what it frees belongs to the oldest request first, the rest to
// the next ones. A request that has got all its pages leaves the line when it looks; one that is
// given up passes its pages on.
//
// No deadlock: a request that waits leaves the pages that it has with the line. An older request
// that comes back takes them. So the oldest one waits only for pages that are in use.
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

// Wakes one thread that sleeps until something has happened. Any thread.
class Notifier {
 public:
  void notify() {
    sequence_.fetch_add(1, std::memory_order_release);  // pairs with rung()
    futex_wake(sequence_, 1);
  }
  // Seen before looking whether there is something to do; wait() returns at once if it rang since.
  std::uint32_t seen() const { return sequence_.load(std::memory_order_acquire); }
  void wait(std::uint32_t seen, int limit_ms) const { futex_wait(sequence_, seen, limit_ms); }

 private:
  std::atomic<std::uint32_t> sequence_{0};
};

// Any thread.
class Capacity {
 public:
  explicit Capacity(std::uint64_t pages) : pages_(pages) {}

  // From now on `bell` rings whenever more than `pages` come to be reserved; it outlives this.
  // Before any other thread knows of this.
  void notify_above(std::uint64_t pages, Notifier& notifier) {
    notify_above_ = pages;
    notifier_ = &notifier;
  }

  std::uint64_t pages() const { return pages_; }
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // False: the pool is too full, or older requests wait.
  [[nodiscard]] bool try_reserve(std::uint64_t pages);
  void give_back(std::uint64_t pages) EXCLUDES(lock_);

  // Reserved pages that are in no block, so that no eviction can free them: their owner gives them
  // back.
  void keep(std::uint64_t pages) { kept_.fetch_add(pages, std::memory_order_relaxed); }
  void give_kept_back(std::uint64_t pages) {
    kept_.fetch_sub(pages, std::memory_order_relaxed);
    give_back(pages);
  }
  std::uint64_t kept() const { return kept_.load(std::memory_order_relaxed); }

  // A request's place in the line, by age. Requests keep it while they look again and again.
  std::uint64_t draw_ticket() { return tickets_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // The request with this ticket waits until `wanted` pages are reserved for it, and brings those
  // that it has. Returns how many it has now. All: it has left the line. None: the line has them.
  std::uint64_t wait_for(std::uint64_t ticket, std::uint64_t wanted, std::uint64_t brought)
      EXCLUDES(lock_);
  // How many pages the line has for the request.
  std::uint64_t pages_for(std::uint64_t ticket) const EXCLUDES(lock_);
  // The request waits no more. Pages that it did not take go to the next ones.
  void leave_line(std::uint64_t ticket) EXCLUDES(lock_);
  // How many pages have come free while requests waited, or were handed to them. If it stands
  // still, waiting is in vain.
  std::uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  struct Waiter {
    std::uint64_t ticket;
    std::uint64_t wanted;
    std::uint64_t got;  // of these, reserved for it

    std::uint64_t missing() const { return wanted - got; }
  };
  // Not malloc: requests come from threads that answer faults.
  using Line = std::pmr::vector<Waiter>;

  // Reserves as many as there are, at most `most`.
  std::uint64_t reserve_some(std::uint64_t most);
  void unreserve(std::uint64_t pages);
  void notify_if_crossed(std::uint64_t before, std::uint64_t now);
  // Hands to the oldest what is free, or has been handed to younger ones.
  void hand_out() REQUIRES(lock_);
  // Null: it is not in the line.
  const Waiter* find(std::uint64_t ticket) const REQUIRES(lock_);
  Line::iterator place_of(std::uint64_t ticket) REQUIRES(lock_);

  const std::uint64_t pages_;
  std::uint64_t notify_above_ = 0;
  Notifier* notifier_ = nullptr;
  std::atomic<std::uint64_t> reserved_{0};
  std::atomic<std::uint64_t> kept_{0};
  std::atomic<std::uint64_t> tickets_{0};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<bool> has_line_{false};  // written under lock_
  mutable Mutex lock_{LockOrder::capacity};
  Line line_ GUARDED_BY(lock_) = Line(&mapped_memory());  // the oldest first
};

// Room in a pool: pages reserved and not yet spent, or a place in the pool's line while some are
// missing. What is left is given back. One thread at a time.
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

  // That can be spent: none while it waits in the line.
  std::uint64_t pages() const { return pages_; }
  // Pages of this capacity that are reserved for it, in the line, too.
  std::uint64_t pages_of(const Capacity& capacity) const {
    if (capacity_ != &capacity) return 0;
    return pages_ + (waits_ ? capacity.pages_for(ticket_) : 0);
  }
  // Makes the room at least `pages` large, from `capacity`. False: the pool is too full, or it is
  // not this request's turn.
  [[nodiscard]] bool try_grow(Capacity& capacity, std::uint64_t pages);
  // The same; where it fails the request waits in the line from now on.
  [[nodiscard]] bool join_line(Capacity& capacity, std::uint64_t pages);
  // Gives everything back, and the place in the line, but not the age.
  void release();
  // The pages exist now: they stay reserved until they leave the pool.
  void spend(std::uint64_t pages) { pages_ -= pages; }

 private:
  Capacity* capacity_ = nullptr;
  std::uint64_t pages_ = 0;
  std::uint64_t ticket_ = 0;  // 0: none was drawn
  bool waits_ = false;        // in the line
};

}  // namespace wherry::impl
