// The program's allocations in the arena: managed memory, and memory of one device. Places them,
// frees them with all their pages, and answers which allocation an address belongs to. Also
// allocates host memory that devices map (HostMemory), because it takes capacity of the host's
// pool.
//
// Any thread may call. The heap's own lock guards only `held_`: AddressSpace serializes what is
// allocated where, and free() holds ProgramAdvice's lock exclusively until the allocation has left
// the live ones and its advice is gone. Placing and finding take DeviceSupervisor's lock (to open
// the arena) and the locks of ModuleVariables. Offsets and sizes are bytes.
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
  // allocate_device() in two steps, for owners that need the pages later: reserve_device() promises
  // the pages to the owner, create_device() creates some of them. create_device() returns false if
  // it cannot create all.
  std::optional<Allocation> reserve_device(std::size_t bytes, Ownership owner)
      EXCLUDES(parts_.devices.lock, parts_.advice.lock);
  [[nodiscard]] bool create_device(std::uintptr_t address, std::size_t bytes, int device);
  // Frees the allocation that starts at `address`: its pages have left every pool when this
  // returns, except pages of a huge page that somebody outside the library holds. free_held() frees
  // those later; until then they count as used, and their addresses are not reused. Returns false
  // if no allocation starts there, or if it is a variable of a module. Requires: no kernel that may
  // access it is running or queued.
  bool free(std::uintptr_t address) EXCLUDES(parts_.advice.lock);
  // Frees device memory of no memory pool. Its pages may be kept for the next allocation
  // (SpareMemory). Requires: no kernel that may access it is running or queued.
  void free_device(std::uintptr_t address) EXCLUDES(parts_.advice.lock);
  // Frees what free_device() kept in the device's pool. Returns whether there was any.
  bool give_up_spare(int device) EXCLUDES(parts_.advice.lock);
  // Frees the held pages that free() could not. Returns true if none are left. Waits for nobody.
  bool free_held() EXCLUDES(held_lock_);
  std::size_t spare_bytes(int device) const { return parts_.spare.pages(device) * page_size; }

  // Allocates host memory that every device maps, too (host_memory.h), and promises its pages of
  // the host's pool. Returns nullopt if they do not fit.
  std::optional<HostRange> allocate_host(std::size_t bytes, bool apart);
  // Frees host memory. Requires: nothing uses it.
  void free_host(const HostRange& range);

  // Creates the absent ones of these pages in p's pool, and evicts other pages for them. Returns
  // false if they do not all fit; some may have been created then. Requires: the caller keeps the
  // allocation from being freed.
  [[nodiscard]] bool create_pages(PageSpan pages, Processor p);

  // ---- What lies at an address

  // The live allocation that contains the address. If the address is unknown, first makes the
  // managed variables of newly loaded modules managed memory.
  std::optional<Allocation> find(std::uintptr_t address) EXCLUDES(parts_.devices.lock);
  // The API's record of the memory that contains the address, which may be of any kind. Adopts new
  // variables as find() does.
  std::optional<MemoryRecord> find_record(std::uintptr_t address) EXCLUDES(parts_.devices.lock);
  // The offset of the byte in every pool; nullopt if it lies outside the arena, or in variables
  // that are being adopted. It need not be allocated.
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

  // The place of device memory: a file of the device's pool, and the offset there.
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
  // Removes the allocation with its pages. Returns false if none starts there.
  bool remove(std::uintptr_t address, bool is_known_free) EXCLUDES(parts_.advice.lock);

  // Frees the allocation's pages and lets its addresses be used again. Returns false if some pages
  // are held.
  bool end_free(const Allocation& allocation);

  const Parts parts_;
  Mutex held_lock_{LockOrder::held_memory};
  // Allocations that the program has freed, but of which pages are held.
  std::vector<Allocation> held_ GUARDED_BY(held_lock_);
  std::atomic<bool> has_held_{false};
};

}  // namespace wherry::impl
