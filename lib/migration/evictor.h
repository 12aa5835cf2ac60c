// Makes room in a device's pool by moving its oldest block to the host: first in, first out, until
// a better evictor takes its place. Called by whoever needs the room, never under a block lock.
#pragma once

#include "migration/page_engine.h"
#include "pages/block_directory.h"

namespace wherry::impl {

class Evictor {
 public:
  Evictor(PageEngine& engine, BlockDirectory& blocks) : engine_(engine), blocks_(blocks) {}

  // Room for `pages` in p's pool. Nothing: the pages there cannot move because the host has no
  // memory, or `limit_ms` passed while others took what was freed.
  std::optional<Room> make_room(Processor p, std::uint64_t pages, int limit_ms);

  // Moves p's oldest block to the host, capacity or not: for when the kernel has no page left on
  // p's node. False: p holds nothing, or the host has no memory.
  bool evict_oldest(Processor p);

 private:
  bool evict(std::uint64_t number, Processor p);

  PageEngine& engine_;
  BlockDirectory& blocks_;
};

}  // namespace wherry::impl
