// Blocks of which a part could not leave its pool, because somebody outside the library holds a
// page of their huge page (a write with O_DIRECT, a pipe after vmsplice(2), io_uring, another
// process's process_vm_readv(2)), so that Linux refused to split it. The next attempt on such a
// block is made some time later: 1 ms at first, twice as long after each refusal, 1 s at most.
// Nobody waits for the holder.
//
// Any thread; the caller may hold a block's lock. Costs one load while no block is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <unordered_map>

#include "base/lock.h"
#include "base/page.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {

class HeldBlocks {
 public:
  // When the next attempt may be made; 0: at once.
  std::uint64_t retry_at(BlockIndex block) const EXCLUDES(lock_);
  // The first time after `now_ns` at which an attempt on any block may be made; 0: there is none.
  std::uint64_t next_retry(std::uint64_t now_ns) const EXCLUDES(lock_);
  // Notes that Linux refused to split the block.
  void refused(BlockIndex block, std::uint64_t now_ns) EXCLUDES(lock_);
  // Forgets a block: its pages are not held any more, or have left.
  void ended(BlockIndex block) EXCLUDES(lock_);

 private:
  struct Refusal {
    std::uint64_t retry_at_ns = 0;
    std::uint64_t pause_ns = 0;
  };

  std::atomic<std::size_t> count_{0};  // of refusals_
  mutable Mutex lock_{LockOrder::held_blocks};
  // Its memory is not malloc's: handlers of faults add to it.
  std::pmr::unordered_map<std::uint64_t, Refusal> refusals_ GUARDED_BY(lock_) =
      std::pmr::unordered_map<std::uint64_t, Refusal>(&mapped_memory());
};

}  // namespace wherry::impl
