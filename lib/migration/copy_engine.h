// Copies and fills memory of every kind where it is. Pages stay in their pools, and processors go
// on using them. While their bytes are copied the pages are in flight, so no other operation moves
// them, but they lose no rights.
//
// Pages that do not exist are read as zeros. They are created where bytes are written to them: at
// the program's preferred location, else where the request says, else in any pool that has space. A
// written page has one copy afterwards.
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

  // Copies in the calling thread. ok; no_memory: there is none for pages that did not exist;
  // bad_address: this process has no such memory, or no longer has it. In each case a part may have
  // been copied. Memory that is freed meanwhile keeps its pages until no transfer uses them. Not
  // under a block lock.
  OpStatus copy(const CopyRequest& request);
  // Has copiers do what copy() does. Returns at once; another thread calls done(status) once,
  // later. The caller may hold any lock.
  void submit(CopyRequest request, std::function<void(OpStatus)> done);

 private:
  class CopyTask;
  class CopyJob;
  // Consecutive bytes that lie inside one block on both sides.
  struct Piece {
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    std::uint64_t bytes = 0;
  };
  // Pages that are in flight for a piece.
  struct BlockPages {
    BlockIndex block;
    PageMask pages;
  };
  // Whether the next piece of a task can be copied.
  enum class Readiness {
    ready,
    retry,  // try again at once
    wait,   // try again later
    failed,
  };
  // The pages on one side of a piece: those that it is copied to, or from.
  struct Pages;

  static Piece piece_at(const CopyRequest& request, std::uint64_t position);
  // Begins to use the allocations of both sides, so that they are not freed. Returns false if one
  // of them is freed already.
  bool use_allocations(CopyTask& task);
  // Prepares the next piece of the task. ready: `transfer` copies it, and end() must follow.
  Readiness prepare(CopyTask& task, ByteTransfer& transfer);
  void end(CopyTask& task, OpStatus status);
  // Whether some of the pages are in a live transfer.
  bool is_in_live_transfer(const Pages& pages) const;
  Readiness create(CopyTask& task, Pages& pages);
  // Finds a pool for absent pages whose home is full, or for the first of them. Returns nullopt if
  // all pools are full.
  std::optional<Processor> find_other_home(CopyTask& task, Pages& pages, std::uint64_t absent);
  // Ends the task with no_memory.
  static Readiness give_up(CopyTask& task);
  Readiness begin_byte_transfer(CopyTask& task, Pages* to, Pages* from);
  Readiness begin_in_block(CopyTask& task, Pages& pages, Pages* together);
  // Finds the pool of the pages, and cuts the piece to the pages in it.
  Readiness locate(const CopyRequest& request, Pages& pages, const LockedBlock& block)
      REQUIRES(block.state.lock);
  void release(CopyTask& task);

  const Parts parts_;
  IdleBackends backends_;
};

}  // namespace wherry::impl
