#include "memory/capacity.h"

#include <algorithm>
#include <new>

namespace wherry::impl {

// The count carries no data, and who gave pages back had punched them before: relaxed is enough.
constexpr auto relaxed = std::memory_order_relaxed;

void Capacity::ring_if_crossed(std::uint64_t before, std::uint64_t now) {
  if (bell_ != nullptr && before <= ring_above_ && now > ring_above_) bell_->ring();
}

bool Capacity::try_reserve(std::uint64_t pages) {
  // A request that joins the line at this very moment has come later.
  if (has_line_.load(relaxed)) return false;
  std::uint64_t now = reserved_.load(relaxed);
  do {
    if (now + pages > pages_) return false;
  } while (!reserved_.compare_exchange_weak(now, now + pages, relaxed));
  ring_if_crossed(now, now + pages);
  return true;
}

std::uint64_t Capacity::reserve_some(std::uint64_t most) {
  std::uint64_t now = reserved_.load(relaxed);
  std::uint64_t got = 0;
  do {
    got = std::min(most, pages_ - std::min(pages_, now));
  } while (!reserved_.compare_exchange_weak(now, now + got, relaxed));
  ring_if_crossed(now, now + got);
  return got;
}

void Capacity::unreserve(std::uint64_t pages) {
  reserved_.fetch_sub(pages, relaxed);
}

void Capacity::give_back(std::uint64_t pages) {
  unreserve(pages);
  // A request that joins the line after this look finds the pages free.
  if (pages == 0 || !has_line_.load()) return;
  progress_.fetch_add(pages, relaxed);
  const LockGuard guard(lock_);
  hand_out();
}

void Capacity::hand_out() {
  for (Waiter& waiter : line_) {
    const std::uint64_t got = reserve_some(waiter.missing);
    waiter.missing -= got;
    waiter.handed += got;
    progress_.fetch_add(got, relaxed);
    if (waiter.missing != 0) return;
  }
}

Capacity::Line::iterator Capacity::find(std::uint64_t ticket) {
  return std::ranges::lower_bound(line_, ticket, {}, &Waiter::ticket);
}

std::uint64_t Capacity::wait_for(std::uint64_t ticket, std::uint64_t missing) {
  const LockGuard guard(lock_);
  auto place = find(ticket);
  if (place == line_.end() || place->ticket != ticket) {
    try {
      place = line_.insert(place, {ticket, 0, 0});
    } catch (const std::bad_alloc&) {
      return 0;  // it looks again, and has a place then or finds the pages free
    }
    has_line_.store(true);
  }
  // It may need fewer than before: the rest is for the next ones.
  const std::uint64_t surplus = place->handed - std::min(place->handed, missing);
  place->handed -= surplus;
  place->missing = missing - place->handed;
  unreserve(surplus);
  hand_out();
  place = find(ticket);
  const std::uint64_t handed = std::exchange(place->handed, 0);
  if (place->missing == 0) line_.erase(place);
  has_line_.store(!line_.empty());
  return handed;
}

void Capacity::leave_line(std::uint64_t ticket) {
  const LockGuard guard(lock_);
  const auto place = find(ticket);
  if (place == line_.end() || place->ticket != ticket) return;
  unreserve(place->handed);
  line_.erase(place);
  hand_out();
  has_line_.store(!line_.empty());
}

bool Room::try_grow(Capacity& capacity, std::uint64_t pages) {
  if (capacity_ != &capacity) *this = Room(capacity, 0);  // room elsewhere is of no use
  if (waits_) return join_line(capacity, pages);
  if (pages <= pages_) return true;
  if (!capacity.try_reserve(pages - pages_)) return false;
  pages_ = pages;
  return true;
}

bool Room::join_line(Capacity& capacity, std::uint64_t pages) {
  if (capacity_ != &capacity) *this = Room(capacity, 0);
  if (ticket_ == 0) ticket_ = capacity.draw_ticket();
  waits_ = pages > pages_;
  if (!waits_) {
    capacity.leave_line(ticket_);
    return true;
  }
  pages_ += capacity.wait_for(ticket_, pages - pages_);
  waits_ = pages_ < pages;
  return !waits_;
}

void Room::release() {
  if (capacity_ == nullptr) return;
  if (std::exchange(waits_, false)) capacity_->leave_line(ticket_);
  if (const std::uint64_t pages = std::exchange(pages_, 0); pages != 0) capacity_->give_back(pages);
}

}  // namespace wherry::impl
