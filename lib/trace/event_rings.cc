#include "trace/event_rings.h"

#include <pthread.h>

#include <bit>

#include "base/check.h"

namespace wherry::impl {

EventRings::EventRings(std::size_t capacity)
    : memory_(Mapping::zeroed(rings * capacity * sizeof(Ring::Place))) {
  WHERRY_CHECK(std::has_single_bit(capacity) && capacity <= capacity_max, "capacity {}", capacity);
  auto* const places = reinterpret_cast<Ring::Place*>(memory_.data());
  for (unsigned i = 0; i < rings; ++i)
    rings_[i].use(places + i * capacity, std::countr_zero(capacity));
}

// Selects the ring by thread and not by CPU, so a thread's events stay in order when it migrates
// between CPUs. pthread_self() depends on the address of the thread's stack, so neighbouring
// threads differ in the middle bits; the multiplication moves those to the top. No variable here
// may be thread-local: in a library that is loaded late, its first use allocates.
EventRings::Ring& EventRings::ring_of_this_thread() {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  return rings_[(static_cast<std::uint64_t>(::pthread_self()) * golden) >>
                (64 - std::countr_zero(rings))];
}

bool EventRings::put(const TraceEvent& event) noexcept {
  if (ring_of_this_thread().put(event)) return true;
  dropped_[static_cast<unsigned>(event.kind)].fetch_add(1, std::memory_order_relaxed);
  return false;
}

std::size_t EventRings::take(std::span<TraceEvent> events) {
  std::size_t taken = 0;
  for (unsigned i = 0; i < rings && taken < events.size(); ++i)
    taken += rings_[(first_ + i) % rings].take(events.subspan(taken));
  ++first_;
  return taken;
}

}  // namespace wherry::impl
