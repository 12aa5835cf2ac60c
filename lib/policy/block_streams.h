// Sweeps over blocks, seen by their faults: when a processor has used most of a block, it is expected to go on with the next one,
// upwards or downwards. A few of them at a time; the oldest is forgotten.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

// Any thread: what is lost when two change something at once is a prediction.
class BlockStreams {
 public:
  // The processor has used most of this block.
  void note_dense(Processor p, std::uint64_t block) {
    Streams& streams = of(p);
    for (const std::uint64_t next : {up(block + 1), down(block - 1)}) {
      if (contains(streams, next)) continue;
      const unsigned place = streams.next_place.fetch_add(1, std::memory_order_relaxed) % count;
      streams.expected[place].store(next, std::memory_order_relaxed);
    }
  }
  // The processor uses this block for the first time. Whether that was expected; then the one after it is. It may be asked again,
  // and says the same.
  bool follow(Processor p, std::uint64_t block) {
    for (auto& place : of(p).expected) {
      const std::uint64_t expected = place.load(std::memory_order_relaxed);
      if (expected == up(block + 1) || expected == down(block - 1)) return true;
      if (expected != up(block) && expected != down(block)) continue;
      place.store(expected == up(block) ? up(block + 1) : down(block - 1),
                  std::memory_order_relaxed);
      return true;
    }
    return false;
  }

 private:
  static constexpr unsigned count = 8;

  // 0 is none.
  static constexpr std::uint64_t up(std::uint64_t block) { return 2 * block + 2; }
  static constexpr std::uint64_t down(std::uint64_t block) { return 2 * block + 3; }

  struct Streams {
    std::array<std::atomic<std::uint64_t>, count> expected{};
    std::atomic<unsigned> next_place{0};
  };

  Streams& of(Processor p) { return streams_[static_cast<std::size_t>(p.index)]; }
  static bool contains(const Streams& streams, std::uint64_t next) {
    for (const auto& place : streams.expected)
      if (place.load(std::memory_order_relaxed) == next) return true;
    return false;
  }

  std::array<Streams, max_processors> streams_;
};

}  // namespace wherry::impl
