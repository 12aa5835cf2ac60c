#include "faults/stale_faults.h"

#include <algorithm>
#include <new>

namespace wherry::impl {
namespace {

// A note says that a thread was woken for a page, and has not accessed it again since. The thread
// does that within this time if no other thread has a note; after that its note may be dropped.
constexpr std::uint64_t soon_alone_ns = 100'000'000;
// What each note of another thread adds to soon_alone_ns, and the most that the sum can be.
constexpr std::uint64_t soon_each_ns = 1'000'000;
constexpr std::uint64_t soon_max_ns = 10'000'000'000;
// The least time between two searches of a full table for old notes.
constexpr std::uint64_t look_pause_ns = 10'000'000;

}  // namespace

StaleFaults::StaleFaults(const Audiences& audiences, const AddressSpace& address_space, Clock clock,
                         std::pmr::memory_resource& memory)
    : audiences_(audiences),
      address_space_(address_space),
      clock_(clock),
      suspects_(places_first, &memory) {}

bool StaleFaults::is_of_freed(const Fault& fault) {
  if (fault.changes_before && address_space_.was_dead(fault.page, fault.changes_before->frees))
    return true;
  return came_back(fault, {0, address_space_.last_free(fault.page)});
}

bool StaleFaults::is_of_foreign(const Fault& fault) {
  const Changes now{audiences_.changes(), address_space_.last_free(fault.page)};
  // An allocation that was made since the message was read makes no difference, because the memory
  // belonged to nobody before.
  const auto& before = fault.changes_before;
  if (before && now.of_access == before->of_access && now.last_free <= before->frees) return true;
  return came_back(fault, now);
}

bool StaleFaults::came_back(const Fault& fault, const Changes& changes) {
  const LockGuard guard(lock_);
  const std::uint64_t now = clock_();
  const Suspect fresh{true, fault.processor, fault.message.thread, 0, fault.page, now, changes};
  Suspect& suspect = place_of(fresh);
  if (!suspect.exists) {
    if (make_room(now)) note(fresh);
    return false;
  }
  if (suspect.page != fault.page) {
    suspect = fresh;  // the thread's access before this one has ended
    return false;
  }
  if (suspect.changes == changes) {
    if (fault.taken_ns < suspect.answered_ns) return false;
  } else {
    suspect.rounds = now - suspect.answered_ns < soon_ns() ? suspect.rounds + 1 : 0;
    suspect.changes = changes;
    suspect.answered_ns = now;
    if (suspect.rounds < rounds_max) return false;
  }
  // The thread gets its signal, so its place can be used for another.
  forget(static_cast<std::size_t>(&suspect - suspects_.data()));
  return true;
}

std::size_t StaleFaults::home_of(const Suspect& suspect) const {
  const auto key = (suspect.thread_or_page() << 8) + static_cast<unsigned>(suspect.processor.index);
  // The upper bits of the product depend on all bits of the key.
  return ((key * 0x9e37'79b9'7f4a'7c15) >> 32) & (suspects_.size() - 1);
}

StaleFaults::Suspect& StaleFaults::place_of(const Suspect& suspect) {
  std::size_t place = home_of(suspect);
  while (suspects_[place].exists && !suspects_[place].is_of_thread_of(suspect))
    place = (place + 1) & (suspects_.size() - 1);
  return suspects_[place];
}

void StaleFaults::note(const Suspect& suspect) {
  place_of(suspect) = suspect;
  ++used_;
}

void StaleFaults::forget(std::size_t place) {
  const std::size_t mask = suspects_.size() - 1;
  suspects_[place].exists = false;
  --used_;
  for (std::size_t next = (place + 1) & mask; suspects_[next].exists; next = (next + 1) & mask) {
    const std::size_t home = home_of(suspects_[next]);
    // A note whose home lies behind `place` stays, because it must not lie before its home.
    if (((next - home) & mask) < ((next - place) & mask)) continue;
    suspects_[place] = suspects_[next];
    suspects_[next].exists = false;
    place = next;
  }
}

bool StaleFaults::make_room(std::uint64_t now) {
  if (!is_crowded()) return true;
  forget_old(now);
  // If most notes are still needed, a table of this size would soon be searched again.
  if (2 * used_ > suspects_.size()) grow();
  return !is_crowded();
}

void StaleFaults::forget_old(std::uint64_t now) {
  if (now < next_look_ns_) return;
  next_look_ns_ = now + look_pause_ns;
  const std::uint64_t soon = soon_ns();
  for (std::size_t place = 0; place < suspects_.size();) {
    const Suspect& suspect = suspects_[place];
    // forget() may move another note to this place.
    if (suspect.exists && now - suspect.answered_ns > soon)
      forget(place);
    else
      ++place;
  }
}

void StaleFaults::grow() {
  if (suspects_.size() == places_max) return;
  try {
    std::pmr::vector<Suspect> larger(2 * suspects_.size(), suspects_.get_allocator());
    suspects_.swap(larger);
    used_ = 0;
    for (const Suspect& suspect : larger)
      if (suspect.exists) note(suspect);
  } catch (const std::bad_alloc&) {
  }
}

std::uint64_t StaleFaults::soon_ns() const {
  return std::min(soon_alone_ns + used_ * soon_each_ns, soon_max_ns);
}

}  // namespace wherry::impl
