// Brings the next blocks of a sweep to the processor that sweeps, while it still uses the blocks
// before them. The policy detects sweeps (policy/block_streams.h). ReadAhead requests the expected
// blocks from the prefetcher, each once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "migration/prefetcher.h"

namespace wherry::impl {

class ReadAhead {
 public:
  // How many blocks come ahead of the one in use.
  static constexpr std::uint64_t blocks_max = 4;

  // All outlive the copiers, which work on the requests.
  // `cpus`: how many CPUs the process may use.
  ReadAhead(Prefetcher& prefetcher, Copiers& copiers, BlockDirectory& blocks, std::size_t cpus)
      : prefetcher_(prefetcher), copiers_(copiers), blocks_(blocks), cpus_(cpus) {}

  // p uses `block`, and is expected to use the next blocks soon: upwards (1) or downwards (-1).
  // Requests those that are part of the allocation and that other pools hold. Requests nothing
  // while all CPUs are in use: the copies would take time from the program, which may wait for a
  // kernel that sweeps. Any thread that holds no lock; does not wait. If there is no memory,
  // nothing is requested.
  void request(Processor p, BlockIndex block, int direction, PageSpan allocation);

 private:
  // Whether other pools hold the whole block. False also if its lock is taken.
  bool is_elsewhere(BlockIndex block, Processor p) const;
  // Returns false if the block is requested already.
  bool begin(BlockIndex block);
  void end(BlockIndex block);
  std::atomic<std::uint64_t>& slot_of(BlockIndex block) {
    return requested_[block.value % requested_.size()];
  }

  Prefetcher& prefetcher_;
  Copiers& copiers_;
  BlockDirectory& blocks_;
  const std::size_t cpus_;
  // Slots of requested blocks: the block's index plus 1, or 0. A block whose slot is taken is not
  // brought.
  std::array<std::atomic<std::uint64_t>, 64> requested_{};
};

}  // namespace wherry::impl
