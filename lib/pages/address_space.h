// Places allocations in the arena. Deals with addresses only: touches no pages, makes no system
// calls.
//
// Small allocations start on 64 KiB boundaries, in 2 MiB chunks that they share with allocations of
// the same kind. Other allocations start on 2 MiB boundaries. Two allocations therefore never share
// a page, nor (up to 64 KiB) the region that a fault brings along. A stretch of addresses is free,
// live, or leaving (the program has freed it, its pages are not removed yet). A stretch that is
// accessed while it is free or leaving is retired: its address is never reused, because the page
// table holds a trap for it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "base/processor.h"
#include "os/memory/mapping.h"
#include "pages/audiences.h"

namespace wherry::impl {

// The owner of an allocation. If `device` is empty, the memory is managed. Otherwise it is that
// device's own memory, and its pages stay in that device's pool.
struct Ownership {
  std::optional<Processor> device;
  unsigned pool_audience = 0;  // the audience of a memory pool's memory; 0: not from a memory pool

  bool is_managed() const { return !device; }
  unsigned audience() const {
    if (!device) return Audiences::everybody;
    return pool_audience != 0 ? pool_audience : Audiences::of_device(*device);
  }
};

struct Allocation {
  std::uint64_t offset = 0;  // bytes from the arena's base
  std::uint64_t bytes = 0;   // the requested size
  std::uint64_t id = 0;      // never reused
  unsigned flags = 0;        // the API's attach flags
  Ownership owner;
  bool is_variable = false;  // a module's variable: never freed
  bool withdraws = false;    // since begin_withdrawal()
  bool retires = false;      // its addresses are not reused

  // The whole pages of the allocation, which advice and migration apply to.
  PageSpan pages() const {
    return {page_at_offset(offset), round_up(bytes, page_size) / page_size};
  }
};

// The attach flags of memory for which the program gives none: all streams may use it.
inline constexpr unsigned attached_to_all = 1;

// The streams from which the program says it will use an allocation. Replaces the flags given at
// its allocation.
struct Attachment {
  unsigned flags = 0;  // one of the API's attach flags
  // The only stream, if there is one. The attachment ends when that stream is destroyed.
  std::optional<std::weak_ptr<const void>> stream;
};

class AddressSpace {
 public:
  // `device_from`, a multiple of 2 MiB: the devices' own memory is placed from there on. The part
  // before it is striped (stripes.h), and there an allocation is placed at an offset that is at
  // least its size, if possible. If it is 0, nothing is striped.
  explicit AddressSpace(std::uint64_t bytes, std::uint64_t device_from = 0);

  // Places an allocation of `bytes` > 0, which is live at once. Returns nullopt if no free stretch
  // is long enough.
  std::optional<Allocation> allocate(std::uint64_t bytes, unsigned flags, Ownership owner = {})
      EXCLUDES(lock_);
  // allocate_at(): allocates exactly at `offset`; nullopt if not all of it is free.
  // allocate_aligned(): allocates at an address that is a multiple of `alignment`, where the byte
  // at offset 0 has the address `base`.
  // Require: all arguments are multiples of 2 MiB.
  std::optional<Allocation> allocate_at(std::uint64_t offset, std::uint64_t bytes) EXCLUDES(lock_);
  std::optional<Allocation> allocate_aligned(std::uint64_t bytes, std::uint64_t alignment,
                                             std::uint64_t base) EXCLUDES(lock_);
  // Registers a variable at these bytes, which lie beyond those where allocations are placed. It is
  // live at once.
  Allocation adopt(std::uint64_t offset, std::uint64_t bytes, unsigned flags) EXCLUDES(lock_);
  // Removes the live allocation that starts at `offset` from the live ones and returns it, or
  // nullopt if there is none, it is a variable, or it is being withdrawn.
  std::optional<Allocation> begin_free(std::uint64_t offset) EXCLUDES(lock_);
  // The program has freed the live allocation at `offset`, and has allocated its pages again with
  // this size: it gets a new id and no attachment. Returns it. Requires: as many pages as before.
  Allocation renew(std::uint64_t offset, std::uint64_t bytes) EXCLUDES(lock_);
  // How many allocations have been freed.
  std::uint64_t frees() const { return frees_.load(); }
  // What frees() was after the last free of an allocation at the page; 0 if there was none. It may
  // be the number of a later free elsewhere.
  std::uint64_t last_free(PageIndex page) const;
  // Whether the page belonged to no live allocation when frees() was `frees`, and belongs to none
  // since. Returns false also for pages outside the arena, and for those of withdrawn allocations.
  // Requires: it belongs to no live one now.
  bool was_dead(PageIndex page, std::uint64_t frees) const EXCLUDES(lock_);
  // Prevents end_free() of the allocation with this id, which contains the byte at `offset`, until
  // end_use(). For callers that work on its pages without a lock. Returns false, without effect, if
  // it is no longer live, or is being withdrawn.
  [[nodiscard]] bool begin_use(std::uint64_t offset, std::uint64_t id) EXCLUDES(lock_);
  void end_use(std::uint64_t id) EXCLUDES(lock_);
  // Whether the allocation is in use. After begin_free() no caller can begin to use it.
  bool is_in_use(const Allocation& allocation) const EXCLUDES(lock_);
  // The pages have been removed from every pool and page table: the addresses may be reused.
  // Requires: the allocation is not in use.
  void end_free(const Allocation& allocation) EXCLUDES(lock_);

  // The live allocation at `offset` is about to become memory that is not managed: no caller can
  // begin to use it, and faults on it wait. Returns it, or nullopt if there is none, it is a
  // variable, it is being withdrawn already, or it shares a block with other allocations.
  std::optional<Allocation> begin_withdrawal(std::uint64_t offset) EXCLUDES(lock_);
  // The allocation is not managed any more. Its addresses are never reused. Requires: it is not in
  // use.
  void end_withdrawal(const Allocation& allocation) EXCLUDES(lock_);

  // Replaces the attachment of an allocation. No effect if the allocation is not live.
  void attach(const Allocation& allocation, Attachment attachment) EXCLUDES(lock_);
  // The attach flags that apply now.
  unsigned attach_flags(const Allocation& allocation) const EXCLUDES(lock_);
  // Returns the live allocation whose pages contain the byte at `offset`, or nullopt.
  std::optional<Allocation> find(std::uint64_t offset) const EXCLUDES(lock_);
  // The pages of every live allocation of the audience.
  std::vector<PageSpan> pages_for(unsigned audience) const EXCLUDES(lock_);
  // Ensures that the 64 KiB around a page that belongs to no live allocation are never reused.
  // Returns a span around the page, inside its block, in which no allocation is live, is being
  // freed, or will ever be placed. Returns nullopt, and does nothing, if the page is live. Neither
  // this nor retire() fails if memory is short: then more addresses than the 64 KiB are not reused.
  std::optional<PageSpan> retire_if_dead(PageIndex page) EXCLUDES(lock_);
  // Ensures that the 64 KiB around a page are not reused after their allocation is freed.
  void retire(PageIndex page) EXCLUDES(lock_);

 private:
  // Free stretches of addresses, merged with their neighbours.
  class FreeList {
   public:
    void insert(std::uint64_t offset, std::uint64_t bytes);
    // Removes `bytes` from the shortest stretch that fits (of equal ones, the lowest address), and
    // returns their offset, or nullopt if none fits.
    std::optional<std::uint64_t> take(std::uint64_t bytes);
    // Takes from the shortest stretch that fits, at `offset` or higher if the stretch is long
    // enough for that. Prefers stretches that begin before `limit`.
    std::optional<std::uint64_t> take_near(std::uint64_t offset, std::uint64_t bytes,
                                           std::uint64_t limit);
    // Takes from the first place at `offset` or higher that is long enough.
    std::optional<std::uint64_t> take_from(std::uint64_t offset, std::uint64_t bytes);
    // Takes from the first place with an aligned address (see allocate_aligned()).
    std::optional<std::uint64_t> take_aligned(std::uint64_t bytes, std::uint64_t alignment,
                                              std::uint64_t base);
    // Removes exactly this stretch. Returns false, and does nothing, if not all of it is free. Does
    // not throw: two pieces of a free stretch may be left, and if there is no memory for the
    // second, the shorter one is lost.
    bool carve(std::uint64_t offset, std::uint64_t bytes) noexcept;
    // Whether some of these bytes are free.
    bool overlaps(std::uint64_t offset, std::uint64_t bytes) const;

   private:
    void erase(std::map<std::uint64_t, std::uint64_t>::iterator stretch);
    void add(std::uint64_t offset, std::uint64_t bytes);

    std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset -> bytes
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset)
  };

  static std::uint64_t reserved_bytes(std::uint64_t bytes);
  std::optional<std::uint64_t> place(std::uint64_t bytes, const Ownership& owner) REQUIRES(lock_);
  std::optional<std::uint64_t> take_large(std::uint64_t bytes, const Ownership& owner)
      REQUIRES(lock_);
  FreeList& small_of(const Ownership& owner) REQUIRES(lock_) {
    return owner.is_managed() ? small_managed_ : small_device_;
  }
  Allocation enter(std::uint64_t offset, std::uint64_t bytes, unsigned flags, Ownership owner)
      REQUIRES(lock_);
  void give_back(std::uint64_t offset, std::uint64_t bytes, FreeList& small) REQUIRES(lock_);
  std::optional<Allocation> find_locked(std::uint64_t offset) const REQUIRES_SHARED(lock_);
  void retire_locked(PageIndex page) REQUIRES(lock_);
  // Whether no allocation at these bytes is live or is being freed, none will ever be placed there,
  // and they have not become memory that is not managed.
  bool is_dead(std::uint64_t offset, std::uint64_t bytes) const REQUIRES(lock_);
  // Counts the free of an allocation, which is no longer live.
  void count_free(const Allocation& allocation) REQUIRES(lock_);
  std::atomic_ref<std::uint64_t> last_large_free(BlockIndex block) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(frees_of_blocks_.data())[block.value]);
  }
  std::size_t place_of_region(std::uint64_t offset) const {
    return offset / (pages_per_region * page_size) % frees_of_regions_.size();
  }

  mutable SharedMutex lock_{LockOrder::address_space};
  const std::uint64_t device_from_;
  FreeList large_ GUARDED_BY(lock_);  // multiples of 2 MiB
  // Multiples of 64 KiB inside 2 MiB chunks taken from large_. Managed memory and devices' own
  // memory have separate chunks, so that no block holds both.
  FreeList small_managed_ GUARDED_BY(lock_);
  FreeList small_device_ GUARDED_BY(lock_);
  std::map<std::uint64_t, Allocation> live_ GUARDED_BY(lock_);         // by offset
  std::map<std::uint64_t, Attachment> attachments_ GUARDED_BY(lock_);  // of live allocations, by id
  struct Leaving {
    std::uint64_t bytes;   // reserved
    bool retires = false;  // Allocation::retires
  };
  std::map<std::uint64_t, Leaving> leaving_ GUARDED_BY(lock_);  // by offset
  std::vector<std::uint64_t> in_use_ GUARDED_BY(lock_);  // ids, one entry for each begin_use()
  std::map<std::uint64_t, std::uint64_t> withdrawn_ GUARDED_BY(lock_);  // offset -> bytes
  // Retired 64 KiB stretches inside allocations that are live or leaving.
  std::set<std::uint64_t> retired_ GUARDED_BY(lock_);
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;
  // The fields below change under lock_, and are read without it.
  std::atomic<std::uint64_t> frees_{0};
  // For each block the number of the last free of a large allocation there, and for each region the
  // number of the last free of a small one. Several regions share a number.
  const std::uint64_t blocks_;
  const Mapping frees_of_blocks_;
  std::array<std::atomic<std::uint64_t>, 4096> frees_of_regions_{};
};

}  // namespace wherry::impl
