// Copies and fills memory of every kind where it is: pages stay in their pools, whoever has them
// mapped goes on to use them, and nobody moves them while their bytes are copied (they are in
// flight, and lose no rights).
//
// Pages that do not exist read as zeros, and come into being where they are written to: where the
// program prefers them, else where the request says, and where no room can be made there in
// whatever pool has some. What is written to has one copy afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "memory/copy_backend.h"
#include "migration/advice_effects.h"
#include "migration/copiers.h"
#include "migration/copy_request.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/block_directory.h"

namespace wherry::impl {

class CopyEngine {
 public:
  struct Parts {
    PageEngine& engine;
    BlockDirectory& blocks;
    AddressSpace& address_space;
    AdviceEffects& effects;
    Evictor& evictor;
    Copiers& copiers;
  };
  // Outlives the copiers.
  CopyEngine(const Parts& parts, IdleBackends::Make make_copy_backend)
      : parts_(parts), backends_(std::move(make_copy_backend)) {}

  // ok; no_memory: there is none for pages that did not exist; bad_address: this process has no
  // such memory, or not any more. A part may have been copied in any case. What is freed meanwhile
  // keeps its pages until no piece of it is carried. Not under a block lock.
  OpStatus carry(const CopyRequest& request);
  // Has copiers do it, and returns at once. done(status) is called once, later, by another thread.
  // Any lock may be held.
  void submit(CopyRequest request, std::function<void(OpStatus)> done);

 private:
  class TransferTask;
  class Task;
  // Bytes that lie side by side, inside one block of either side.
  struct Piece {
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    std::uint64_t bytes = 0;
  };
  // Pages that are in flight for a piece.
  struct Hold {
    BlockIndex block;
    PageMask pages;
  };
  enum class Step {
    ready,
    moves,  // look again
    waits,  // ... in a moment
    failed,
  };
  // One side of a piece of managed memory.
  struct Pages;

  static Piece piece_at(const CopyRequest& request, std::uint64_t position);
  // Keeps what comes next from being freed. False: it has been.
  bool hold_allocations(TransferTask& task);
  // Begins what comes next of the leg.
  Step begin(TransferTask& task, ByteTransfer& transfer);
  void end(TransferTask& task, OpStatus status);
  // Whether a live flight carries some of the pages.
  bool is_carried(const Pages& pages) const;
  Step create(TransferTask& task, Pages& pages);
  // The pool that the absent pages go to whose home is full, or the first of them; nothing: all are
  // full.
  std::optional<Processor> elsewhere(TransferTask& task, Pages& pages, std::uint64_t absent);
  // There is no memory for it.
  static Step give_up(TransferTask& task);
  Step hold(TransferTask& task, Pages* to, Pages* from);
  Step hold_in_block(TransferTask& task, Pages& pages, Pages* together);
  // Finds the pages' pool, and cuts the piece to what is there.
  Step settle(const CopyRequest& request, Pages& pages, const LockedBlock& block)
      REQUIRES(block.state.lock);
  void release(TransferTask& task);

  const Parts parts_;
  IdleBackends backends_;
};

}  // namespace wherry::impl
