// Makes room in a device's pool by moving its oldest block to the host: first in, first out, until
// a better evictor takes its place. Called by whoever needs the room, never under a block lock.
#pragma once

#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// Who needs room in a pool, and what for.
struct RoomRequest {
  Processor at;
  std::uint64_t pages = 0;     // as many in all, with what there is already
  std::uint64_t for_page = 0;  // the page that is to come
};

class Evictor {
 public:
  Evictor(PageEngine& engine, BlockDirectory& blocks, AdviceEffects& effects)
      : engine_(engine), blocks_(blocks), effects_(effects) {}

  // Makes `room` as large as is requested. ok; no_memory: the host has none for what would have to leave; incomplete: not
  // now, try again in a moment. Never waits.
  OpStatus make_room(const RoomRequest& request, Room& room);

  // Drops p's copies in its oldest block and moves the rest to the host, capacity or not: for when the kernel has no page left on p's node.
  // ok; incomplete: not all of it moved yet, and another call may go on; no_memory: the host has none;
  // absent: p holds nothing.
  OpStatus evict_oldest(Processor p);

 private:
  PageEngine& engine_;
  BlockDirectory& blocks_;
  AdviceEffects& effects_;
};

}  // namespace wherry::impl
