// A queue of records in memory of a fixed size: many writers, one reader at a time. The reader gets
// the records in the order in which they were written.
//
// put() takes no lock, allocates nothing and retries a bounded number of times, even in a signal
// handler that interrupts another put(). If the ring is full, put() refuses the new record.
//
// Place::turn in lap n:   2n  free, 2n + 1  holds a record, 2n + 2  free for the next lap
//
// Memory filled with zeros is therefore an empty ring.
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

  // Call once, before any other function. `places`: 2^`bits` places of zeroed memory that outlives
  // the ring.
  void use(Place* places, int bits) {
    places_ = places;
    bits_ = bits;
  }

  // Any thread and any signal handler may call it. Returns false if the ring is full, or if other
  // writers took the next place attempts_max times.
  bool put(const Record& record) noexcept {
    std::uint64_t entry = next_.load(std::memory_order_relaxed);
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
      Place& place = place_of(entry);
      const std::uint64_t free = 2 * lap_of(entry);
      // Acquire pairs with the release in take(): the reader has copied the old record out.
      const std::uint64_t turn = place.turn.load(std::memory_order_acquire);
      if (turn < free) return false;  // still holds the record of the previous lap
      if (turn > free) {
        entry = next_.load(std::memory_order_relaxed);
      } else if (next_.compare_exchange_strong(entry, entry + 1, std::memory_order_relaxed)) {
        place.record = record;
        place.turn.store(free + 1, std::memory_order_release);  // pairs with the acquire in take()
        // The next places are in the reader's cache. Prefetching them here overlaps the transfer
        // with the thread's other work.
        __builtin_prefetch(&place_of(entry + prefetched), /*rw=*/1);
        return true;
      }
    }
    return false;
  }

  // Copies the oldest records into `records` and removes them from the ring. Returns how many it
  // took: fewer than records.size() if the ring ran empty. Only one thread at a time may call it.
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
  // How many races against other writers a writer may lose before it drops its record: far more
  // than there are concurrent writers.
  static constexpr int attempts_max = 128;
  // How many places ahead a writer prefetches: about as many events as one fault causes.
  static constexpr std::uint64_t prefetched = 2;

  // Shifts and masks, because a division would take longer than the rest of a put().
  std::uint64_t lap_of(std::uint64_t entry) const { return entry >> bits_; }
  Place& place_of(std::uint64_t entry) const {
    return places_[entry & ((std::uint64_t{1} << bits_) - 1)];
  }

  Place* places_ = nullptr;
  int bits_ = 0;
  alignas(64) std::atomic<std::uint64_t> next_{0};  // the next entry to write
  alignas(64) std::uint64_t taken_ = 0;  // how many entries have been read; only the reader uses it
};

}  // namespace wherry::impl
