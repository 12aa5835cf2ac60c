// Memory of the program that the library did not allocate ("system-allocated" memory: malloc, mmap,
// stacks, mapped files), where a device shares the program's page table: the program's advice on
// it, and its placement.
//
// The library only asks Linux: it sets memory policies (mbind) and moves pages (move_pages). So
// private memory stays private, and fork, mprotect and munmap do what they always do. Where the
// host and all devices share one node there is nothing to choose, and the library only remembers
// the advice. A memory policy that the program itself set stays as it is.
//
// Any thread may call.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/lock.h"
#include "machine/topology.h"
#include "os/memory/address_map.h"
#include "os/memory/numa.h"
#include "pages/system_memory_books.h"
#include "runtime/system_prefetcher.h"

namespace wherry::impl {

class SystemMemory {
 public:
  // Both outlive this.
  SystemMemory(const Topology& topology, Copiers& copiers);

  // The advice on such memory. Only the other functions update it, each for its range. Pages are
  // numbered from address 0.
  const SystemMemoryBooks& books() const { return books_; }
  // Looks up which memory is in the range now, and forgets advice on memory that was there before.
  // Returns whether a device may access the range as the host does: each of its bytes is mapped,
  // and may be read, written or executed. If not, the functions below enter nothing. Throws
  // std::bad_alloc.
  bool look(AddressRange bytes) EXCLUDES(lock_);

  // Enters advice for the pages that the bytes touch, and sets or removes memory policies as it
  // says. Returns false if look() does. Throws std::bad_alloc; no advice has changed then.
  bool advise(AddressRange bytes, const AdviceChange& change) EXCLUDES(lock_);

  // Enters `said` as the last prefetch's destination, and returns the work for the prefetcher: to
  // bring the pages to `to`, which is `said` with the number of the caller's node. Returns nullopt
  // if look() returns false. Throws std::bad_alloc; nothing has changed then.
  std::optional<SystemPrefetch> note_prefetch(AddressRange bytes, Location said, Location to)
      EXCLUDES(lock_);
  SystemPrefetcher& prefetcher() { return prefetcher_; }

 private:
  // Does look()'s work. Returns the parts of the range; nullopt if not all of it is accessible.
  std::optional<std::vector<SystemPart>> look_locked(AddressRange bytes) REQUIRES(lock_);
  // Forgets the advice on all memory that is gone. Called once in a while, so that the books of a
  // program that keeps allocating and freeing do not grow without limit.
  void tidy(std::string_view map) REQUIRES(lock_);
  // Forgets the advice on pages of this part that have no memory policy although the library gave
  // them one: the program has mapped other memory there.
  void forget_if_replaced(const SystemPart& part) REQUIRES(lock_);
  // Gives the pages the memory policies that follow from the advice, where Linux and the program
  // permit it.
  void set_policies(std::span<const SystemPart> parts) REQUIRES(lock_);
  void set_policies_of(const SystemPart& part) REQUIRES(lock_);
  // The policies that follow from the advice, in ascending order.
  std::vector<StretchMap<GivenPolicy>::Segment> policies_for(const SystemPart& part) const
      REQUIRES(lock_);
  // Translates a policy to Linux's.
  MemoryPolicy in_nodes(const GivenPolicy& policy) const;
  // Whether the library may replace the policy of a mapping to which it gave `given`.
  bool is_replaceable(const MemoryPolicy& policy, const GivenPolicy& given) const;
  // The nodes that a location stands for, the best first.
  std::vector<int> nodes_of(Location location) const;

  const Topology& topology_;
  const bool has_choice_;  // between nodes
  SystemPrefetcher prefetcher_;
  Mutex lock_{LockOrder::system_memory};
  SystemMemoryBooks books_;
  std::size_t calls_until_tidy_ GUARDED_BY(lock_) = 0;
};

}  // namespace wherry::impl
