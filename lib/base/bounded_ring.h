// Records that wait to be read, in memory of a fixed size: many writers, one reader at a time, in
// the order in which they were written.
//
// Writing takes no lock, allocates nothing and retries a bounded number of times, also in a signal
// handler that interrupted a write: where the ring is full the new record is refused.
//
//   turn of a place in lap n:   2n  free, 2n + 1  holds a record, 2n + 2  free for the next lap
//
// so that memory that is zero is a ring that is empty.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

template <typename Record>
class BoundedRing {
 public:
  struct alignas(64) Place {
    std::atomic<std::uint64_t> turn;
    Record record;
  };

  BoundedRing() = default;
  BoundedRing(const BoundedRing&) = delete;
  BoundedRing& operator=(const BoundedRing&) = delete;

  // Before anything else, and once. `places`: 2 to the power of `bits`, of memory that is zero and
  // outlives the ring.
  void use(Place* places, int bits) {
    places_ = places;
    bits_ = bits;
  }

  // Any thread, and signal handlers. False: there is no room for it.
  bool put(const Record& record) noexcept {
    std::uint64_t entry = next_.load(std::memory_order_relaxed);
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      Place& place = place_of(entry);
      const std::uint64_t free = 2 * lap_of(entry);
      // Acquire pairs with the release in take(): the place has been read.
      const std::uint64_t turn = place.turn.load(std::memory_order_acquire);
      if (turn < free) return false;  // it still holds what the last lap wrote
      if (turn > free) {
        entry = next_.load(std::memory_order_relaxed);
      } else if (next_.compare_exchange_strong(entry, entry + 1, std::memory_order_relaxed)) {
        place.record = record;
        place.turn.store(free + 1, std::memory_order_release);  // pairs with the acquire in take()
        // The next ones lie in the reader's cache: they are on their way while this thread has
        // other things to do.
        __builtin_prefetch(&place_of(entry + prefetched), /*rw=*/1);
        return true;
      }
    }
    return false;
  }

  // Takes the oldest ones out, as many as there are and fit, and says how many. One thread at a
  // time.
  std::size_t take(std::span<Record> records) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      Place& place = place_of(taken_);
      const std::uint64_t held = 2 * lap_of(taken_) + 1;
      if (place.turn.load(std::memory_order_acquire) != held) return i;
      records[i] = place.record;
      place.turn.store(held + 1, std::memory_order_release);
      ++taken_;
    }
    return records.size();
  }

 private:
  // How often others may be faster than a writer before it gives its record up: far more than there
  // are writers at a time.
  static constexpr int attempts_max = 128;
  // How far ahead a writer has a place fetched: about as many events as a fault causes.
  static constexpr std::uint64_t prefetched = 2;

  // Shifts and masks: a division takes longer than all the rest of a write.
  std::uint64_t lap_of(std::uint64_t entry) const { return entry >> bits_; }
  Place& place_of(std::uint64_t entry) const {
    return places_[entry & ((std::uint64_t{1} << bits_) - 1)];
  }

  Place* places_ = nullptr;
  int bits_ = 0;
  alignas(64) std::atomic<std::uint64_t> next_{0};  // entry to be written
  alignas(64) std::uint64_t taken_ = 0;             // entries that have been read; the reader's
};

}  // namespace wherry::impl
