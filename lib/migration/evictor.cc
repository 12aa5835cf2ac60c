#include "migration/evictor.h"

#include <chrono>
#include <thread>

namespace wherry::impl {

std::optional<Room> Evictor::make_room(Processor p, std::uint64_t pages, int limit_ms) {
  ProcessorMemory& pool = engine_.at(p);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  Room room;
  while (!room.try_grow(pool.capacity, pages)) {
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    if (const auto oldest = pool.queue.oldest()) {
      if (!evict(*oldest, p)) return std::nullopt;
    } else {
      // Everything is spoken for by faults in flight, which are about to queue it.
      std::this_thread::yield();
    }
  }
  return room;
}

bool Evictor::evict_oldest(Processor p) {
  const auto oldest = engine_.at(p).queue.oldest();
  return oldest && evict(*oldest, p);
}

// Moves everything that p holds of the block to the host. False: the host has no memory for it.
bool Evictor::evict(std::uint64_t number, Processor p) {
  Block& block = blocks_.at(number);
  const LockGuard guard(block.lock);
  const PageMask held = block.at(p).resident;
  for (PageRun run = held.next_run(0); run.count != 0; run = held.next_run(run.end())) {
    Room room;
    if (!room.try_grow(engine_.at(Processor::host()).capacity, run.count)) return false;
    if (!engine_.migrate(block, number, run, p, Processor::host(), room, MoveCause::eviction))
      return false;
  }
  return true;
}

}  // namespace wherry::impl
