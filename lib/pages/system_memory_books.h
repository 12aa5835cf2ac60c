// The program's advice for memory that the library did not allocate, and where the program last
// prefetched its pages to. Pages are numbered from address 0 here, not from the arena's base.
//
// Linux does not report that the program unmaps such memory and maps other memory there. So the
// books also say for which memory each entry is, as far as Linux can tell pieces of memory apart: a
// file and the place in it, the heap, a stack, or anonymous memory. keep() looks which memory is
// there now, and forgets entries for other memory. Anonymous mappings look alike; a memory policy
// marks those that are in the books, where Linux permits it.
//
// Any thread may read. The caller lets one thread at a time change something.
#pragma once

#include <cstdint>
#include <span>

#include "base/page.h"
#include "pages/advice.h"
#include "pages/stretch_map.h"

namespace wherry::impl {

// Which memory is at a page. Equal values mean the same memory, as far as Linux shows.
struct MemoryIdentity {
  enum class Kind : std::uint8_t {
    none,
    anonymous,
    heap,
    stack,
    file
  };

  Kind kind = Kind::none;
  bool shared = false;
  // Of a file only:
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // The file's offset of address 0 as mapped here, modulo 2^64.
  std::uint64_t origin = 0;

  bool operator==(const MemoryIdentity&) const = default;
};

// Part of the program's memory: pages of one mapping.
struct SystemPart {
  PageSpan pages;
  MemoryIdentity identity;
  bool accessible = false;  // it may be read, written or executed
  bool writable = false;
};

// The memory policy that the library gave to a page's mapping.
struct GivenPolicy {
  enum class Kind : std::uint8_t {
    none,
    mark,   // it changes nothing, and tells the mapping from a later one at the same place
    place,  // pages are created at `location`
  };

  Kind kind = Kind::none;
  Location location;

  bool operator==(const GivenPolicy&) const = default;
};

class SystemMemoryBooks {
 public:
  const AdviceMap& advice() const { return advice_; }
  const LastPrefetches& last_prefetches() const { return last_prefetches_; }
  const StretchMap<MemoryIdentity>& identities() const { return identities_; }
  // The memory policies that the library gave to the pages' mappings.
  StretchMap<GivenPolicy>& policies() { return policies_; }

  // `parts` is the memory that is now in `span`, in ascending order. Forgets the entries for other
  // memory in `span`. Throws like forget().
  void keep(PageSpan span, std::span<const SystemPart> parts);
  // Forgets all entries for these pages. Throws std::bad_alloc; the next keep() then checks the
  // entries that are left.
  void forget(PageSpan span);

  // Enter advice or a prefetch for the parts, which are neighbours. Throw std::bad_alloc; the
  // earlier entries still apply then.
  void advise(std::span<const SystemPart> parts, const AdviceChange& change);
  void note_prefetch(std::span<const SystemPart> parts, Location destination);

 private:
  void identify(std::span<const SystemPart> parts);

  AdviceMap advice_;
  LastPrefetches last_prefetches_;
  StretchMap<MemoryIdentity> identities_;
  StretchMap<GivenPolicy> policies_;
};

// The pages of all parts. Requires: they are neighbours, and there is one.
PageSpan whole(std::span<const SystemPart> parts);

}  // namespace wherry::impl
