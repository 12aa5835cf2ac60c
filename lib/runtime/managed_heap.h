// The program's allocations in the arena: managed memory, and memory of one device. Places them,
// frees them with all their pages, and answers which allocation an address belongs to. Also
// allocates host memory that devices map (HostMemory), because it takes pages of the same pools.
//
// Any thread may call. The heap has no lock of its own: AddressSpace serializes what is allocated
// where, and free() holds ProgramAdvice's lock exclusively until the allocation has left the live
// ones and its advice is gone. Placing and finding take DeviceSupervisor's lock (to open the arena)
// and the locks of ModuleVariables. Offsets and sizes are bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "memory/page_owners.h"
#include "memory/status_board.h"
#include "migration/advice_effects.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "pages/memory_records.h"
#include "runtime/device_supervisor.h"
#include "runtime/host_memory.h"
#include "runtime/module_variables.h"
#include "runtime/pool_budget.h"
#include "runtime/processor_pools.h"
#include "runtime/program_advice.h"
#include "runtime/spare_memory.h"

namespace wherry::impl {

class ManagedHeap {
 public:
  // All outlive this.
  struct Parts {
    const ProcessorPools& pools;
    const ArenaLayout& layout;
    BlockDirectory& blocks;
    AddressSpace& address_space;
    PageOwners& page_owners;
    MemoryRecords& records;
    HostMemory& host_memory;
    PageEngine& engine;
    Evictor& evictor;
    AdviceEffects& effects;
    PoolBudget& budget;
    ProgramAdvice& advice;
    DeviceSupervisor& devices;
    ModuleVariables& variables;
    SpareMemory& spare;
    StatusBoard& status;
    // Called when free_held() has work.
    std::function<void()> note_held;
  };

  explicit ManagedHeap(const Parts& parts) : parts_(parts) {}

  // ---- Allocations

  // Allocates `bytes` > 0 of managed memory, zero until written. Returns nullopt if the arena is
  // full, if all pools together cannot hold it, or if Linux refuses.
  std::optional<Allocation> allocate(std::size_t bytes, unsigned flags)
      EXCLUDES(parts_.devices.lock);
  // Allocates memory that the owner's audience alone may access. All its pages lie in the pool of
  // the owner's device until it is freed; managed memory is evicted for them. They are zero, or
  // hold what the program left in memory that it freed. Returns nullopt if they do not fit.
  std::optional<Allocation> allocate_device(std::size_t bytes, Ownership owner)
      EXCLUDES(parts_.devices.lock, parts_.advice.lock);
  // The same in two steps, for owners that need the pages later: the first one promises the pages
  // to the owner, the second one creates some of them. create_device() returns false if they cannot
  // all be had.
  std::optional<Allocation> reserve_device(std::size_t bytes, Ownership owner)
      EXCLUDES(parts_.devices.lock, parts_.advice.lock);
  [[nodiscard]] bool create_device(std::uintptr_t address, std::size_t bytes, int device);
  // Frees the allocation that starts at `address`: its pages have left every pool when this
  // returns, but for pages of a huge page that somebody outside the library holds. Those stay
  // accounted, and free_held() frees them; their addresses are not given out before. Returns false
  // if no allocation starts there, or if it is a variable of a module. Requires: no kernel that may
  // access it is running or queued.
  bool free(std::uintptr_t address) EXCLUDES(parts_.advice.lock);
  // Frees memory of a device that does not belong to a pool. It may keep its pages for the next
  // allocation (SpareMemory). Requires as free().
  void free_device(std::uintptr_t address) EXCLUDES(parts_.advice.lock);
  // Frees what free_device() kept in the device's pool. Returns whether there was any.
  bool give_up_spare(int device) EXCLUDES(parts_.advice.lock);
  // Frees what free() could not free. Returns true if nothing is left to free. Waits for nobody.
  bool free_held() EXCLUDES(held_lock_);
  std::size_t spare_bytes(int device) const { return parts_.spare.pages(device) * page_size; }

  // Allocates host memory that every device maps, too (host_memory.h), and promises its pages of
  // the host's pool. Returns nullopt if they do not fit.
  std::optional<HostRange> allocate_host(std::size_t bytes, bool apart);
  // Requires: nothing uses it any more.
  void free_host(const HostRange& range);

  // Creates those of the pages that are absent, at p; evicts others for them. Returns false if they
  // do not all fit; some may have been created then. Requires: the caller keeps the allocation from
  // being freed.
  [[nodiscard]] bool create_pages(PageSpan pages, Processor p);

  // ---- What lies at an address

  // The live allocation that contains the address. Adopts variables of new modules first if nothing
  // else explains the address.
  std::optional<Allocation> find(std::uintptr_t address) EXCLUDES(parts_.devices.lock);
  // The record of what contains the address, which may be any memory that the API knows. Adopts
  // variables as find() does.
  std::optional<MemoryRecord> find_record(std::uintptr_t address) EXCLUDES(parts_.devices.lock);
  // The offset of the byte in every pool; nullopt if the address is outside the arena. It need not
  // be allocated.
  std::optional<std::uint64_t> offset_of(std::uintptr_t address) const;
  std::uintptr_t address_of(const Allocation& allocation) const {
    return parts_.layout.address_of(allocation.pages().first);
  }

  // Remembers which streams the program says it will use the allocation from.
  void attach(const Allocation& allocation, Attachment attachment) {
    parts_.address_space.attach(allocation, std::move(attachment));
  }
  unsigned attach_flags(const Allocation& allocation) const {
    return parts_.address_space.attach_flags(allocation);
  }

  // Where a device's own memory lies: in its pool, at this offset.
  struct FilePlace {
    int fd = -1;
    std::uint64_t offset = 0;
  };
  FilePlace file_place(std::uintptr_t address, int device) const;
  // Whether another process has marked any of these bytes of a device's own memory as in use
  // (os/files/range_mark.h).
  bool is_open_elsewhere(std::uintptr_t address, std::size_t bytes, int device) const;

 private:
  // Finds addresses for an allocation whose pages have been claimed, and opens the arena there.
  std::optional<Allocation> place(std::size_t bytes, unsigned flags, Ownership owner)
      EXCLUDES(parts_.devices.lock);
  // Removes the allocation with its pages. False: none begins there.
  bool remove(std::uintptr_t address, bool is_known_free) EXCLUDES(parts_.advice.lock);

  // Frees the allocation's pages and lets its addresses be used again. Returns false if some pages
  // are held.
  bool end_free(const Allocation& allocation);

  const Parts parts_;
  Mutex held_lock_{LockOrder::held_memory};
  // What the program has freed, and of which pages are held.
  std::vector<Allocation> held_ GUARDED_BY(held_lock_);
  std::atomic<bool> has_held_{false};
};

}  // namespace wherry::impl
