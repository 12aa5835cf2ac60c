// A block whose lock the calling thread holds, together with the block's index: what every
// operation on pages takes. Holding one is the permission to read and change the block's state.
//
//   const LockedBlock block(index, blocks.at(index));
//   engine.migrate(block, run, from, to, ...);      // REQUIRES(block.state.lock)
#pragma once

#include <mutex>

#include "base/lock.h"
#include "base/page_mask.h"
#include "pages/block.h"

namespace wherry::impl {

struct FaultSlot;  // trap/fault_board.h

class LockedBlock {
 public:
  // Locks the block. `waiter`: the slot of the thread for whose fault it is locked; null if there
  // is none. The page engine passes it to mappers, which may have that thread change its process's
  // protections (trap/mapper.h).
  LockedBlock(BlockIndex index, Block& block, FaultSlot* waiter = nullptr)
      WHERRY_TSA(acquire_capability(state.lock))
      : index(index), state(block), waiter(waiter) {
    state.lock.lock();
  }
  // Takes over the lock, which the calling thread has locked already.
  LockedBlock(BlockIndex index, Block& block, std::adopt_lock_t)
      WHERRY_TSA(release_capability(block.lock)) WHERRY_TSA(acquire_capability(state.lock))
      : index(index), state(block) {}
  ~LockedBlock() WHERRY_TSA(release_capability(state.lock)) { state.lock.unlock(); }
  LockedBlock(const LockedBlock&) = delete;
  LockedBlock& operator=(const LockedBlock&) = delete;

  // Converts a run of the block to pages of the arena.
  PageSpan span_of(PageRun run) const { return impl::span_of(index, run); }

  const BlockIndex index;
  Block& state;
  FaultSlot* const waiter = nullptr;
};

}  // namespace wherry::impl
