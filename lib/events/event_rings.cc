#include "events/event_rings.h"

#include <pthread.h>

#include <bit>

#include "base/check.h"

namespace wherry::impl {
namespace {

// How often others may be faster than a writer before it gives its event up: far more than there are writers at a time.
constexpr int attempts_max = 128;
// How far ahead a writer has a place fetched: about as many events as a fault causes.
constexpr std::uint64_t prefetched = 2;

}  // namespace

EventRings::EventRings(std::size_t capacity)
    : bits_(std::countr_zero(capacity)),
      memory_(Mapping::zeroed(rings * capacity * sizeof(Place))) {
  WHERRY_CHECK(std::has_single_bit(capacity) && capacity <= capacity_max, "capacity {}", capacity);
  auto* const places = reinterpret_cast<Place*>(memory_.data());
  for (unsigned i = 0; i < rings; ++i) rings_[i].places = places + i * capacity;
}

// By the thread and not by its CPU: a thread's events stay in order wherever it runs. What identifies it is where
// its stack is, so neighbours differ in the middle bits, which the multiplication takes to the top. Nothing here may be
// thread-local: in a library that is loaded late its first use allocates.
EventRings::Ring& EventRings::ring_of_this_thread() {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  return rings_[(static_cast<std::uint64_t>(::pthread_self()) * golden) >>
                (64 - std::countr_zero(rings))];
}

bool EventRings::put(const EventRecord& event) noexcept {
  Ring& ring = ring_of_this_thread();
  std::uint64_t entry = ring.next.load(std::memory_order_relaxed);
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    Place& place = place_of(ring, entry);
    const std::uint64_t free = 2 * lap_of(entry);
    // Acquire pairs with the release in take_from(): the place has been read.
    const std::uint64_t turn = place.turn.load(std::memory_order_acquire);
    if (turn < free) break;  // it still holds what the last lap wrote
    if (turn > free) {
      entry = ring.next.load(std::memory_order_relaxed);
    } else if (ring.next.compare_exchange_strong(entry, entry + 1, std::memory_order_relaxed)) {
      place.event = event;
      place.turn.store(free + 1,
                       std::memory_order_release);  // pairs with the acquire in take_from()
      // The next ones lie in the reader's cache: they are on their way while this thread has other things to do.
      __builtin_prefetch(&place_of(ring, entry + prefetched), /*rw=*/1);
      return true;
    }
  }
  dropped_[static_cast<unsigned>(event.kind)].fetch_add(1, std::memory_order_relaxed);
  return false;
}

std::size_t EventRings::take_from(Ring& ring, std::span<EventRecord> events) const {
  for (std::size_t i = 0; i < events.size(); ++i) {
    Place& place = place_of(ring, ring.taken);
    const std::uint64_t held = 2 * lap_of(ring.taken) + 1;
    if (place.turn.load(std::memory_order_acquire) != held) return i;
    events[i] = place.event;
    place.turn.store(held + 1, std::memory_order_release);
    ++ring.taken;
  }
  return events.size();
}

std::size_t EventRings::take(std::span<EventRecord> events) {
  std::size_t taken = 0;
  for (unsigned i = 0; i < rings && taken < events.size(); ++i)
    taken += take_from(rings_[(first_ + i) % rings], events.subspan(taken));
  ++first_;
  return taken;
}

}  // namespace wherry::impl
