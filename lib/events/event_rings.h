// Where events wait to be read: a fixed number of bounded rings, each with many writers and one reader. A thread always
// writes to the same ring, so that its events come out in the order in which they went in; threads share rings.
//
// Writing takes no lock, allocates nothing and retries a bounded number of times, also in a signal handler that interrupted a
// write: an event that finds its ring full is dropped, and counted.
//
//   turn of a place in lap n:   2n  free, 2n + 1  holds an event, 2n + 2  free for the next lap
//
// so that memory that is zero is a ring that is empty.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "events/event.h"
#include "os/mapping.h"

namespace wherry::impl {

class EventRings {
 public:
  static constexpr unsigned rings = 8;
  static constexpr std::size_t capacity_max = std::size_t{1} << 20;  // of one ring

  // Each holds `capacity` events, a power of two up to capacity_max. Memory is committed as it is written. Throws
  // std::system_error.
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
  struct alignas(64) Place {
    std::atomic<std::uint64_t> turn;
    EventRecord event;
  };
  struct alignas(64) Ring {
    std::atomic<std::uint64_t> next{0};   // entry to be written
    alignas(64) std::uint64_t taken = 0;  // entries that have been read; the reader's
    Place* places = nullptr;
  };

  Ring& ring_of_this_thread();
  std::size_t take_from(Ring& ring, std::span<EventRecord> events) const;
  // Shifts and masks: a division takes longer than all the rest of a write.
  std::uint64_t lap_of(std::uint64_t entry) const { return entry >> bits_; }
  Place& place_of(const Ring& ring, std::uint64_t entry) const {
    return ring.places[entry & ((std::uint64_t{1} << bits_) - 1)];
  }

  const int bits_;  // of the capacity
  const Mapping memory_;
  std::array<Ring, rings> rings_;
  unsigned first_ = 0;  // where the next take() begins, so that a full ring starves no other one
  std::array<std::atomic<std::uint64_t>, event_kinds> dropped_{};
};

}  // namespace wherry::impl
