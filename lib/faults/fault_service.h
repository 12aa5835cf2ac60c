// Answers one fault: decides under the block's lock, has the engine carry it out, then wakes
// whoever slept. Called by the daemon's handler threads, several at once.
#pragma once

#include <array>
#include <cstdint>

#include "base/lock.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/block_directory.h"
#include "policy/policy.h"

namespace wherry::impl {

class FaultService {
 public:
  FaultService(std::uintptr_t arena_base, PageEngine& engine, Evictor& evictor,
               BlockDirectory& blocks, AddressSpace& address_space, const Policy& policy)
      : base_(arena_base),
        engine_(engine),
        evictor_(evictor),
        blocks_(blocks),
        address_space_(address_space),
        policy_(policy) {}

  // Whatever the event says, exactly one wake (or a trap that ends the thread) follows it.
  void resolve(Processor toucher, const FaultEvent& event);

 private:
  enum class Outcome {
    resolved,     // the page may be used, or nobody is left who wants it: wake
    try_again,    // the state moved on, or room is needed: look again
    unallocated,  // no live allocation covers the page
    no_memory,    // the kernel has no page for the destination
    lost,         // the pool does not hold what it held: the machine or an outsider took it
  };
  struct Attempt {
    Outcome outcome;
    std::uint64_t room_needed = 0;
    PageSpan wake{};
  };

  Attempt attempt(Processor toucher, std::uint64_t page, const FaultEvent& event, Room& room);
  Attempt carry_out(Block& block, std::uint64_t number, unsigned page, const Decision& decision,
                    Room& room) REQUIRES(block.lock);
  // The page at its place but not usable as the event needs: not mapped, or still write-protected.
  Attempt restore_access(Block& block, std::uint64_t number, unsigned page,
                         const Decision& decision) REQUIRES(block.lock);
  void refuse(Processor toucher, std::uint64_t page, const FaultEvent& event, const char* why);
  // Whether the same touch was reported before. A message about freed memory may be stale: its thread was woken by the
  // answer to a neighbour's fault, and the memory freed since. Then nobody sleeps, and a wake does no harm; a thread
  // that does touch freed memory comes back.
  bool came_back(Processor toucher, std::uint64_t page, std::uint32_t thread)
      EXCLUDES(suspects_lock_);

  const std::uintptr_t base_;
  PageEngine& engine_;
  Evictor& evictor_;
  BlockDirectory& blocks_;
  AddressSpace& address_space_;
  const Policy& policy_;

  struct Suspect {
    Processor toucher;
    std::uint64_t page = 0;
    std::uint32_t thread = 0;
    bool operator==(const Suspect&) const = default;
  };
  Mutex suspects_lock_;  // a leaf
  // The latest touches of memory that is not allocated; more at once only take another round.
  std::array<Suspect, 64> suspects_ GUARDED_BY(suspects_lock_);
  std::size_t next_suspect_ GUARDED_BY(suspects_lock_) = 0;
};

}  // namespace wherry::impl
