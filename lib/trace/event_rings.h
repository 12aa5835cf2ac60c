// Where events wait to be read: a fixed number of bounded rings (base/bounded_ring.h). A thread
// always writes to the same ring, so that its events come out in the order in which they went in;
// threads share rings. An event that finds its ring full is dropped, and counted.
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

  // Each holds `capacity` events, a power of two up to capacity_max. Memory is committed as it is
  // written. Throws std::system_error.
  explicit EventRings(std::size_t capacity);
  EventRings(const EventRings&) = delete;
  EventRings& operator=(const EventRings&) = delete;

  // Any thread, and signal handlers. False: dropped, and counted.
  bool put(const EventRecord& event) noexcept;
  // Takes events out, as many as there are and fit, and says how many. One thread at a time.
  std::size_t take(std::span<EventRecord> events);
  // How many of this kind were dropped so far. Any thread.
  std::uint64_t dropped(EventKind kind) const {
    return dropped_[static_cast<unsigned>(kind)].load(std::memory_order_relaxed);
  }

 private:
  using Ring = BoundedRing<EventRecord>;

  Ring& ring_of_this_thread();

  const Mapping memory_;
  std::array<Ring, rings> rings_;
  unsigned first_ = 0;  // where the next take() begins, so that a full ring starves no other one
  std::array<std::atomic<std::uint64_t>, event_kinds> dropped_{};
};

}  // namespace wherry::impl
