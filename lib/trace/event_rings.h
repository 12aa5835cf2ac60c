// Holds events until they are read: a fixed number of bounded rings (base/bounded_ring.h). A thread
// always writes to the same ring, so its events are read in the order in which it wrote them.
// Several threads share a ring. An event that finds its ring full is dropped and counted.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounded_ring.h"
#include "os/memory/mapping.h"
#include "trace/event.h"

namespace wherry::impl {

class EventRings {
 public:
  static constexpr unsigned rings = 8;
  static constexpr std::size_t capacity_max = std::size_t{1} << 20;  // of one ring

  // Each ring holds `capacity` events, a power of two up to capacity_max. Memory is committed as it
  // is written. Throws std::system_error.
  explicit EventRings(std::size_t capacity);
  EventRings(const EventRings&) = delete;
  EventRings& operator=(const EventRings&) = delete;

  // Any thread and signal handlers may call. Returns false if the event was dropped (and counted).
  bool put(const TraceEvent& event) noexcept;
  // Removes as many events as are available and fit, and returns how many. One thread at a time may
  // call.
  std::size_t take(std::span<TraceEvent> events);
  // How many events of this kind have been dropped so far. Any thread may call.
  std::uint64_t dropped(EventKind kind) const {
    return dropped_[static_cast<unsigned>(kind)].load(std::memory_order_relaxed);
  }

 private:
  using Ring = BoundedRing<TraceEvent>;

  Ring& ring_of_this_thread();

  const Mapping memory_;
  std::array<Ring, rings> rings_;
  // The ring with which the next take() begins: it changes, so that no full ring starves the
  // others.
  unsigned first_ = 0;
  std::array<std::atomic<std::uint64_t>, event_kinds> dropped_{};
};

}  // namespace wherry::impl
