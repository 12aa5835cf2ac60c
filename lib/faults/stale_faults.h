// Tells accesses to memory that a processor does not have from stale messages about such memory.
//
// A message is stale if its thread was woken by the answer to a neighbour's fault, and the memory
// was freed, or access to it taken, before the message was read. Then no thread sleeps on it, and a
// wake does no harm. A thread that does access such memory faults again after the wake, with a
// message that is read after the answer to the first one. If memory was freed, or access given or
// taken, between the two messages, the second may be as stale as the first, and the fault is
// answered once more. That ends: no thread leaves so many stale messages in a row.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "base/lock.h"
#include "base/processor.h"
#include "faults/fault.h"
#include "pages/address_space.h"
#include "pages/audiences.h"

namespace wherry::impl {

// Any thread.
class StaleFaults {
 public:
  // Both outlive this.
  StaleFaults(const Audiences& audiences, const AddressSpace& address_space, Clock clock)
      : audiences_(audiences), address_space_(address_space), clock_(clock) {}

  // So often an access is answered once more, which takes some tenths of a second.
  static constexpr unsigned rounds_max = 10'000;

  // Whether the same access was reported before, and answered. If not, it is remembered.
  bool came_back(const Fault& fault) EXCLUDES(lock_);

 private:
  // How often access to memory has changed.
  struct Changes {
    std::uint64_t of_audiences = 0;
    std::uint64_t frees = 0;
    bool operator==(const Changes&) const = default;
  };
  struct Suspect {
    Processor processor;
    PageIndex page = {};
    std::uint32_t thread = 0;
    std::uint64_t answered_ns = 0;
    Changes changes = {};  // until then
    unsigned rounds = 0;   // of answers one soon after the other, with changes in between
  };

  const Audiences& audiences_;
  const AddressSpace& address_space_;
  const Clock clock_;
  Mutex lock_{LockOrder::suspects};
  // The latest ones. If more are under way at once, some take another round.
  std::array<Suspect, 64> suspects_ GUARDED_BY(lock_);
  std::size_t next_ GUARDED_BY(lock_) = 0;
};

}  // namespace wherry::impl
