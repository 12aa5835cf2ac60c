// What is allocated where in the arena. Addresses only: no pages, no kernel calls.
//
// Small allocations start on 64 KiB boundaries inside 2 MiB chunks that those of one sort share,
// others on 2 MiB boundaries, so that two allocations never share a page (nor, up to 64 KiB, the
// region that a fault brings along). A stretch is free, live, or leaving (freed by the program,
// pages not yet gone); touched while free or leaving it is retired: its address is never handed out
// again, because the page table holds a trap for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "base/processor.h"
#include "pages/audiences.h"

namespace wherry::impl {

// Whose an allocation is: `device` nothing, it is managed; else that device's, in whose pool its
// pages stay.
struct Ownership {
  std::optional<Processor> device;
  unsigned pool_audience = 0;  // of memory of a pool (Audiences); 0: of none

  bool is_managed() const { return !device; }
  unsigned audience() const {
    if (!device) return Audiences::everybody;
    return pool_audience != 0 ? pool_audience : Audiences::of_device(*device);
  }
};

struct Allocation {
  std::uint64_t offset = 0;  // bytes from the arena's base
  std::uint64_t bytes = 0;   // as asked for
  std::uint64_t id = 0;      // never reused
  unsigned flags = 0;        // the API's attach flags
  Ownership owner;
  bool is_variable = false;  // of a module: never freed

  // Whole pages: what advice and migration see.
  PageSpan pages() const { return {offset / page_size, round_up(bytes, page_size) / page_size}; }
};

// Which streams the program says it will use an allocation from, in place of what it said when it
// allocated it.
struct Attachment {
  unsigned flags = 0;  // one of the API's attach flags
  // The only stream, if it is one; the attachment ends with it.
  std::optional<std::weak_ptr<const void>> stream;
};

class AddressSpace {
 public:
  explicit AddressSpace(std::uint64_t bytes);

  // Places an allocation of `bytes` > 0; nothing when no stretch is long enough. It is live at
  // once.
  std::optional<Allocation> allocate(std::uint64_t bytes, unsigned flags, Ownership owner = {})
      EXCLUDES(lock_);
  // The same exactly at `offset`, if all of that is free; or where the address is a multiple of
  // `alignment`, with the byte at offset 0 at the address `base`. Requires: multiples of 2 MiB.
  std::optional<Allocation> allocate_at(std::uint64_t offset, std::uint64_t bytes) EXCLUDES(lock_);
  std::optional<Allocation> allocate_aligned(std::uint64_t bytes, std::uint64_t alignment,
                                             std::uint64_t base) EXCLUDES(lock_);
  // A variable has these bytes, which are beyond those that allocations are placed in. It is live
  // at once.
  Allocation adopt(std::uint64_t offset, std::uint64_t bytes, unsigned flags) EXCLUDES(lock_);
  // Takes the live allocation that starts at `offset` out of the live ones; nothing when there is
  // none, or it is a variable.
  std::optional<Allocation> begin_free(std::uint64_t offset) EXCLUDES(lock_);
  // Keeps the pages of the allocation with this id, which contains the byte at `offset`, from being
  // taken away until let_go(), for who works on them and holds no lock for as long. False: it is
  // not live any more, and nothing is kept.
  [[nodiscard]] bool hold(std::uint64_t offset, std::uint64_t id) EXCLUDES(lock_);
  void let_go(std::uint64_t id) EXCLUDES(lock_);
  // Once it is not live nobody begins to.
  bool is_held(const Allocation& allocation) const EXCLUDES(lock_);
  // Its pages are gone from every pool and page table: the address may be reused. Requires: nobody
  // holds it.
  void end_free(const Allocation& allocation) EXCLUDES(lock_);

  // Replaces the attachment of an allocation, if it is still live.
  void attach(const Allocation& allocation, Attachment attachment) EXCLUDES(lock_);
  // The attach flags that hold now.
  unsigned attach_flags(const Allocation& allocation) const EXCLUDES(lock_);
  // The live allocation whose pages contain the byte at `offset`.
  std::optional<Allocation> find(std::uint64_t offset) const EXCLUDES(lock_);
  // The pages of every live allocation of the audience.
  std::vector<PageSpan> pages_for(unsigned audience) const EXCLUDES(lock_);
  // Makes sure that the 64 KiB around a page that no live allocation covers are never handed out.
  // False: the page is live, nothing was done.
  bool retire_if_dead(std::uint64_t page) EXCLUDES(lock_);
  // Makes sure that the 64 KiB around a page are not handed out again once their allocation is
  // freed.
  void retire(std::uint64_t page) EXCLUDES(lock_);

  // One past the highest byte ever handed out.
  std::uint64_t high_water() const EXCLUDES(lock_);

 private:
  // Stretches of free addresses, merged with their neighbours.
  class FreeList {
   public:
    void insert(std::uint64_t offset, std::uint64_t bytes);
    // Takes the shortest stretch that fits, lowest address first among equals.
    std::optional<std::uint64_t> take(std::uint64_t bytes);
    // Takes the first stretch out that begins at such an address.
    std::optional<std::uint64_t> take_aligned(std::uint64_t bytes, std::uint64_t alignment,
                                              std::uint64_t base);
    // Takes exactly this stretch out, if all of it is free.
    bool carve(std::uint64_t offset, std::uint64_t bytes);

   private:
    void erase(std::map<std::uint64_t, std::uint64_t>::iterator stretch);

    std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset -> bytes
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset)
  };

  static std::uint64_t reserved_bytes(std::uint64_t bytes);
  std::optional<std::uint64_t> place(std::uint64_t bytes, FreeList& small) REQUIRES(lock_);
  FreeList& small_of(const Ownership& owner) REQUIRES(lock_) {
    return owner.is_managed() ? small_managed_ : small_device_;
  }
  Allocation enter(std::uint64_t offset, std::uint64_t bytes, unsigned flags, Ownership owner)
      REQUIRES(lock_);
  void give_back(std::uint64_t offset, std::uint64_t bytes, FreeList& small) REQUIRES(lock_);
  std::optional<Allocation> find_locked(std::uint64_t offset) const REQUIRES_SHARED(lock_);
  void retire_locked(std::uint64_t page) REQUIRES(lock_);

  mutable SharedMutex lock_{LockOrder::address_space};
  FreeList large_ GUARDED_BY(lock_);  // multiples of 2 MiB
  // Multiples of 64 KiB inside 2 MiB chunks taken from large_: for managed memory, and for devices'
  // own, so that no block holds both.
  FreeList small_managed_ GUARDED_BY(lock_);
  FreeList small_device_ GUARDED_BY(lock_);
  std::map<std::uint64_t, Allocation> live_ GUARDED_BY(lock_);         // by offset
  std::map<std::uint64_t, Attachment> attachments_ GUARDED_BY(lock_);  // of those, by id
  std::map<std::uint64_t, std::uint64_t> leaving_ GUARDED_BY(lock_);   // offset -> reserved bytes
  std::vector<std::uint64_t> held_ GUARDED_BY(lock_);                  // ids, once for each hold
  std::set<std::uint64_t> retired_
      GUARDED_BY(lock_);  // 64 KiB stretches of live_ and leaving_ ones
  std::uint64_t high_water_ GUARDED_BY(lock_) = 0;
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;
};

}  // namespace wherry::impl
