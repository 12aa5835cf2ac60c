// What the host may do to one processor's view of the arena: the seam between the engine and the
// way faults are trapped. Calls never sleep on managed memory, never wake a faulting thread unless
// they say so, and never retry: a call that Linux refuses for the moment returns `incomplete`, and
// the caller looks again later, without the block's lock. The exceptions, with their reasons, are
// in docs/life-of-a-fault.md ("Waits under a block's lock"): map_whole() and, with mprotect,
// changes of another process's protection. One implementation uses userfaultfd, one mprotect; tests
// wrap them to delay or fail single steps.
#pragma once

#include <cstddef>

#include "base/page.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {

class Mapper {
 public:
  virtual ~Mapper() = default;

  // Whether pages that leave the pool in the processor's view leave its page table at once, and the
  // next touch of them is a fault. Otherwise they must be unmapped before: a touch of a hole would
  // create a page.
  virtual bool punch_unmaps() const = 0;
  // How many pages, aligned, should be treated alike at the moment so that the process keeps within
  // its mappings: 1, a region or a block. More than 1: access may have been taken away from more
  // than was asked for.
  virtual unsigned grain() const = 0;
  // No thread of the processor can access the pages any more. ok or process_gone.
  [[nodiscard]] virtual OpResult unmap(PageSpan span) = 0;
  // Copies into the processor's pool and maps write-protected. Requires: absent there; the source
  // is resident.
  [[nodiscard]] virtual OpResult copy_protected(PageSpan span, const std::byte* source) = 0;
  // Zero pages into the processor's pool, mapped writable. Requires: absent there.
  [[nodiscard]] virtual OpResult zero(PageSpan span) = 0;
  // Maps what the pool in the processor's view holds, writable or write-protected. unsupported:
  // this kernel cannot map write-protected.
  [[nodiscard]] virtual OpResult map_resident(PageSpan span, bool write_protected) = 0;
  // Maps a whole block, writable, by one entry for a huge page. Requires: the pool in the
  // processor's view holds all of it, nobody minds who touches what of it from now on, and it stays
  // so meanwhile. Otherwise than ok: some of it may be mapped, and map_resident can do the rest.
  // Sleeps, for a second at most, while Linux has no memory to trap the block again.
  [[nodiscard]] virtual OpResult map_whole(PageSpan block) = 0;
  [[nodiscard]] virtual OpResult write_protect(PageSpan span) = 0;
  [[nodiscard]] virtual OpResult write_unprotect(PageSpan span) = 0;
  // Every later touch ends in SIGBUS or SIGSEGV. For addresses that are never handed out again.
  [[nodiscard]] virtual OpResult forbid(PageSpan span) = 0;
  // Lets threads that sleep on a fault in `span` try again.
  [[nodiscard]] virtual OpResult wake(PageSpan span) = 0;
};

}  // namespace wherry::impl
