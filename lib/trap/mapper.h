// What the host can do to one processor's page table, for its view of the arena: the interface
// between the page engine and the trap. No call waits for a fault to be resolved, retries, or wakes
// a faulting thread, except wake(). A call that Linux refuses for the moment returns `incomplete`,
// and the caller looks again later, without the block's lock. The exceptions, with their reasons,
// are in docs/decisions/moving-pages.md ("Waits under a block's lock"): map_whole() and, with
// mprotect, changes of another process's protection. Tests replace mappers by fakes, or wrap them
// to delay or fail single steps.
//
// Threads: any, under the lock of the block. A thread of the host that resolves its own fault also
// calls the host's mapper, in a signal handler. So the implementations allocate nothing.
//
// `waiter` is the slot of the thread for whose fault the call is made, or null. A trap that changes
// protections has that thread make the change, if it is a thread of the processor.
#pragma once

#include <cstddef>

#include "base/page.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {

struct FaultSlot;  // trap/fault_board.h

class Mapper {
 public:
  virtual ~Mapper() = default;

  // Whether a punch of the pool in the processor's view removes the page table entries, so that the
  // next access faults. If not, the pages must be unmapped before the punch, because an access to
  // the hole would create a page.
  virtual bool punch_unmaps() const = 0;
  // How many pages, aligned, should at present be treated alike, so that the process stays within
  // its number of mappings: 1, a region or a block. If more than 1, access may have been removed
  // from more pages than was requested.
  virtual unsigned grain() const = 0;
  // Removes all access of the processor's threads, perhaps to the whole block if map_whole() has
  // mapped it. Returns ok or process_gone.
  [[nodiscard]] virtual OpResult unmap(PageSpan span, FaultSlot* waiter = nullptr) = 0;
  // Copies the pages into the processor's pool, and maps them write-protected. Requires: the pool
  // does not hold them; the source is resident.
  [[nodiscard]] virtual OpResult copy_protected(PageSpan span, const std::byte* source,
                                                FaultSlot* waiter = nullptr) = 0;
  // Creates zero pages in the processor's pool, mapped writable. Requires: it does not hold them.
  [[nodiscard]] virtual OpResult zero(PageSpan span, FaultSlot* waiter = nullptr) = 0;
  // Maps the pages that the pool in the processor's view holds, writable or write-protected.
  // Returns `unsupported` if Linux cannot create a write-protected entry (before Linux 6.4).
  [[nodiscard]] virtual OpResult map_resident(PageSpan span, bool write_protected,
                                              FaultSlot* waiter = nullptr) = 0;
  // Maps a whole block writable, by one entry for a huge page. Requires: the pool in the
  // processor's view holds all of it and continues to during the call, and the processor may access
  // all of it from now on. Returns `occupied` if all pages are mapped by small entries, because a
  // page table was there or the pool has small pages. With any result but ok and `occupied`, a part
  // may be mapped, and map_resident() can map the rest. Sleeps, for a second at most, while Linux
  // has no memory to trap the block again.
  [[nodiscard]] virtual OpResult map_whole(PageSpan block, FaultSlot* waiter = nullptr) = 0;
  [[nodiscard]] virtual OpResult write_protect(PageSpan span, FaultSlot* waiter = nullptr) = 0;
  [[nodiscard]] virtual OpResult write_unprotect(PageSpan span, FaultSlot* waiter = nullptr) = 0;
  // Removes the page table's entries for the block, so that the next access to each page faults;
  // also for traps whose unmap() leaves that to the punch. Returns `unsupported` if only the
  // processor's process could do it.
  [[nodiscard]] virtual OpResult remove_entries(PageSpan block) {
    return {block.empty() ? OpStatus::ok : OpStatus::unsupported, 0};
  }
  // Calls split_folios() (os/memory/folio_split.h) for this page table. Returns `unsupported` if
  // the host must not or cannot.
  [[nodiscard]] virtual OpResult split_folios(PageSpan span) {
    return {span.empty() ? OpStatus::ok : OpStatus::unsupported, 0};
  }
  // Makes every later access raise SIGBUS or SIGSEGV, or fault, so that it is refused again. For
  // addresses that are never allocated again. Requires: the processor has mapped none of the pages.
  // If `page` is forbidden already, the others may stay as they are. Returns `unsupported`, or
  // `gone`, if Linux cannot do that by an entry; then the caller calls hide().
  [[nodiscard]] virtual OpResult forbid(PageSpan span, PageIndex page) = 0;
  // Makes every later access raise a signal, by a mapping that permits no access. Called without
  // the block's lock: the process itself makes the mapping, which may take as long as any command
  // to it. The pages may be mapped.
  [[nodiscard]] virtual OpResult hide(PageSpan span) = 0;
  // Lets the threads that sleep on a fault in `span` repeat their accesses.
  [[nodiscard]] virtual OpResult wake(PageSpan span) = 0;
};

}  // namespace wherry::impl
