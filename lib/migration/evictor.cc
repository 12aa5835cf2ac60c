#include "migration/evictor.h"

#include <chrono>
#include <thread>

namespace wherry::impl {
namespace {

constexpr int memory_attempts_max = 20;
constexpr std::chrono::milliseconds memory_pause{5};

}  // namespace

std::optional<Room> Evictor::make_room(Processor p, std::uint64_t pages, int limit_ms) {
  ProcessorMemory& pool = engine_.at(p);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  int failures = 0;
  Room room;
  while (!room.try_grow(pool.capacity, pages)) {
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    switch (evict_oldest(p)) {
      case OpStatus::ok:
        break;
      case OpStatus::no_memory:
        // The kernel may be reclaiming: a moment later there may be some.
        if (++failures == memory_attempts_max) return std::nullopt;
        std::this_thread::sleep_for(memory_pause);
        break;
      default:
        // Everything is spoken for by faults in flight, which are about to queue it.
        std::this_thread::yield();
    }
  }
  return room;
}

OpStatus Evictor::evict_oldest(Processor p) {
  const auto oldest = engine_.at(p).queue.oldest();
  if (!oldest) return OpStatus::absent;
  Block& block = blocks_.at(*oldest);
  const LockGuard guard(block.lock);
  const PageMask held = block.at(p).resident;
  for (PageRun run = held.next_run(0); run.count != 0; run = held.next_run(run.end())) {
    Room room;
    if (!room.try_grow(engine_.at(Processor::host()).capacity, run.count))
      return OpStatus::no_memory;
    const OpResult result =
        engine_.migrate(block, *oldest, run, p, Processor::host(), room, MoveCause::eviction);
    if (!result) return result.status;
  }
  return OpStatus::ok;
}

}  // namespace wherry::impl
