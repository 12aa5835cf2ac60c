// Brings the next blocks of a sweep to the processor that sweeps, while it still uses those before
// them. The policy sees sweeps (policy/block_streams.h); this turns what it expects into requests
// to the prefetcher, each block once.
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
  // kernel that sweeps. Any thread, without locks; does not wait. Without memory nothing is
  // requested.
  void request(Processor p, BlockIndex block, int direction, PageSpan allocation);

 private:
  // Whether the block is elsewhere, as far as can be seen without waiting.
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
  // Blocks whose requests are not done, plus 1; 0: none. A block without a free slot is not
  // brought.
  std::array<std::atomic<std::uint64_t>, 64> requested_{};
};

}  // namespace wherry::impl
