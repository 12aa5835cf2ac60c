#include "migration/evictor.h"

namespace wherry::impl {
namespace {

// Others may take what is freed; who loses that often lets them go first.
constexpr int evictions_max = 64;

}  // namespace

OpStatus Evictor::make_room(const RoomRequest& request, Room& room) {
  for (int evicted = 0; evicted < evictions_max; ++evicted) {
    if (room.try_grow(engine_.at(request.at).capacity, request.pages)) return OpStatus::ok;
    switch (evict_oldest(request.at)) {
      case OpStatus::ok:
        break;
      case OpStatus::no_memory:
        return OpStatus::no_memory;
      default:
        // Everything is spoken for by faults in flight, which are about to queue it; or the kernel
        // says to come again.
        return OpStatus::incomplete;
    }
  }
  return OpStatus::incomplete;
}

OpStatus Evictor::evict_oldest(Processor p) {
  const auto oldest = engine_.at(p).queue.oldest();
  if (!oldest) return OpStatus::absent;
  Block& block = blocks_.at(*oldest);
  const LockGuard guard(block.lock);
  if (!(block.at(p).resident & block.in_flight()).none()) return OpStatus::incomplete;
  const PageMask held = block.at(p).resident;
  const PageMask copies = held & block.held_beside(p);
  for (const PageRun run : runs_of(copies)) {
    engine_.drop(block, *oldest, run, p);
    count(engine_.at(p).counters.evicted, run.count);
  }
  for (const PageRun run : runs_of(held - copies)) {
    Room room;
    if (!room.try_grow(engine_.at(Processor::host()).capacity, run.count))
      return OpStatus::no_memory;
    const OpResult result =
        engine_.migrate(block, *oldest, run, p, Processor::host(), room, MoveCause::eviction);
    // Not waited for: who accesses the pages meanwhile faults.
    (void)effects_.follow(block, *oldest, run);
    if (!result) return result.status;
  }
  return OpStatus::ok;
}

}  // namespace wherry::impl
