// Detects sweeps over blocks from faults. When a processor has used most of a block, its next
// accesses are expected in the next block, upwards or downwards. A few expected blocks are kept for
// each processor, for a sweep by each of many threads; a new one replaces the oldest.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

// Any thread may call any function. Two concurrent changes may lose a prediction, which costs
// performance only.
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
  // The processor uses this block for the first time. Returns 0 if that was not expected. Otherwise
  // the next block in the same direction is expected, and the return value is the direction: 1 or
  // -1. A repeated call for the same block returns the same.
  int follow(Processor p, std::uint64_t block) {
    for (auto& place : of(p).expected) {
      const std::uint64_t expected = place.load(std::memory_order_relaxed);
      const bool upwards = (expected & ~followed) == up(block);
      if (upwards || (expected & ~followed) == down(block)) {
        place.store((upwards ? up(block + 1) : down(block - 1)) | followed,
                    std::memory_order_relaxed);
        return upwards ? 1 : -1;
      }
      if (expected == (up(block + 1) | followed)) return 1;
      if (expected == (down(block - 1) | followed)) return -1;
    }
    return 0;
  }

 private:
  static constexpr unsigned count = 64;

  // Encoding of an expected block and its direction; 0 is an empty place. With the bit `followed`,
  // the block before it was accessed as expected.
  static constexpr std::uint64_t followed = 1;
  static constexpr std::uint64_t up(std::uint64_t block) { return 4 * (block + 1); }
  static constexpr std::uint64_t down(std::uint64_t block) { return 4 * (block + 1) + 2; }

  struct Streams {
    std::array<std::atomic<std::uint64_t>, count> expected{};
    std::atomic<unsigned> next_place{0};
  };

  Streams& of(Processor p) { return streams_[static_cast<std::size_t>(p.index)]; }
  static bool contains(const Streams& streams, std::uint64_t next) {
    for (const auto& place : streams.expected)
      if ((place.load(std::memory_order_relaxed) & ~followed) == next) return true;
    return false;
  }

  std::array<Streams, max_processors> streams_;
};

}  // namespace wherry::impl
