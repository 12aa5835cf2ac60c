#include "memory/capacity.h"

#include <algorithm>
#include <new>

namespace wherry::impl {

// Relaxed is enough for the counts that carry no data. Two pairs need more:
// - Pages are punched before they are given back (release), and created after they were reserved
//   (acquire), so that the pool's file never has more pages than are reserved.
// - give_back() frees pages and then looks for a line, wait_for() makes a line and then looks for
//   free pages. One of the two must see what the other has done, so these four steps are
//   sequentially consistent.
constexpr auto relaxed = std::memory_order_relaxed;

void Capacity::notify_if_crossed(std::uint64_t before, std::uint64_t now) {
  if (notifier_ != nullptr && before <= notify_above_ && now > notify_above_) notifier_->notify();
}

bool Capacity::try_reserve(std::uint64_t pages) {
  // A request that joins the line after this load counts as younger than this one.
  if (has_line_.load(relaxed)) return false;
  std::uint64_t now = reserved_.load(relaxed);
  do {
    if (now + pages > pages_) return false;
  } while (!reserved_.compare_exchange_weak(now, now + pages, std::memory_order_acquire, relaxed));
  notify_if_crossed(now, now + pages);
  return true;
}

std::uint64_t Capacity::reserve_some(std::uint64_t most) {
  std::uint64_t now = reserved_.load();
  std::uint64_t got = 0;
  do {
    got = std::min(most, pages_ - std::min(pages_, now));
  } while (!reserved_.compare_exchange_weak(now, now + got));
  notify_if_crossed(now, now + got);
  return got;
}

void Capacity::unreserve(std::uint64_t pages) {
  reserved_.fetch_sub(pages);
}

void Capacity::give_back(std::uint64_t pages) {
  unreserve(pages);
  // A request that joins the line after this load sees the pages as free.
  if (pages == 0 || !has_line_.load()) return;
  progress_.fetch_add(pages, relaxed);
  const LockGuard guard(lock_);
  hand_out();
}

void Capacity::hand_out() {
  for (auto waiter = line_.begin(); waiter != line_.end(); ++waiter) {
    const std::uint64_t free = reserve_some(waiter->missing());
    waiter->got += free;
    progress_.fetch_add(free, relaxed);
    // Pages taken from younger requests are not progress: they were free before.
    for (auto younger = std::prev(line_.end()); younger != waiter; --younger) {
      const std::uint64_t taken = std::min(waiter->missing(), younger->got);
      younger->got -= taken;
      waiter->got += taken;
    }
    if (waiter->missing() != 0) return;
  }
}

Capacity::Line::iterator Capacity::place_of(std::uint64_t ticket) {
  return std::ranges::lower_bound(line_, ticket, {}, &Waiter::ticket);
}

const Capacity::Waiter* Capacity::find(std::uint64_t ticket) const {
  const auto place = std::ranges::lower_bound(line_, ticket, {}, &Waiter::ticket);
  return place == line_.end() || place->ticket != ticket ? nullptr : &*place;
}

std::uint64_t Capacity::wait_for(std::uint64_t ticket, std::uint64_t wanted,
                                 std::uint64_t brought) {
  const LockGuard guard(lock_);
  auto place = place_of(ticket);
  if (find(ticket) == nullptr) {
    try {
      place = line_.insert(place, {ticket, 0, 0});
    } catch (const std::bad_alloc&) {
      // The request tries again later; it then joins the line, or finds free pages.
      return brought;
    }
    has_line_.store(true);
  }
  // The request may need fewer pages than before; the rest goes to the next requests.
  const std::uint64_t got = place->got + brought;
  place->wanted = wanted;
  place->got = std::min(got, wanted);
  unreserve(got - place->got);
  hand_out();
  if (place->missing() != 0) return 0;
  line_.erase(place);
  has_line_.store(!line_.empty());
  return wanted;
}

std::uint64_t Capacity::pages_for(std::uint64_t ticket) const {
  const LockGuard guard(lock_);
  const Waiter* const waiter = find(ticket);
  return waiter == nullptr ? 0 : waiter->got;
}

void Capacity::leave_line(std::uint64_t ticket) {
  const LockGuard guard(lock_);
  if (find(ticket) == nullptr) return;
  const auto place = place_of(ticket);
  unreserve(place->got);
  line_.erase(place);
  hand_out();
  has_line_.store(!line_.empty());
}

bool Reservation::try_grow(Capacity& capacity, std::uint64_t pages) {
  // Pages that are reserved in another pool are of no use, and are given back.
  if (capacity_ != &capacity) *this = Reservation(capacity, 0);
  if (waits_) return join_line(capacity, pages);
  if (pages <= pages_) return true;
  if (!capacity.try_reserve(pages - pages_)) return false;
  pages_ = pages;
  return true;
}

bool Reservation::join_line(Capacity& capacity, std::uint64_t pages) {
  if (capacity_ != &capacity) *this = Reservation(capacity, 0);
  if (!waits_ && pages <= pages_) return true;
  if (ticket_ == 0) ticket_ = capacity.draw_ticket();
  pages_ = capacity.wait_for(ticket_, pages, pages_);
  waits_ = pages_ < pages;
  return !waits_;
}

void Reservation::release() {
  if (capacity_ == nullptr) return;
  if (std::exchange(waits_, false)) capacity_->leave_line(ticket_);
  if (const std::uint64_t pages = std::exchange(pages_, 0); pages != 0) capacity_->give_back(pages);
}

}  // namespace wherry::impl
