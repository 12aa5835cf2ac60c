// Managed variables: those that modules of this process (the program, its libraries, modules that
// it loads through the API) declare as managed memory. Their pages are copied to the host's pool
// and mapped from there at the addresses that the variables have. The modules themselves know
// nothing of this library.
//
// Variables are adopted when the library is asked about an address that it does not know, because
// dlopen() does not tell it of new modules. They stay managed memory until the process ends.
//
// Any thread may call. `lock_` (LockOrder::sections) lets one thread adopt at a time;
// DeviceSupervisor's lock is taken inside it, so that no device starts while the arena's layout
// changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/lock.h"
#include "devices/managed_sections.h"
#include "memory/page_owners.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "pages/memory_records.h"
#include "runtime/device_supervisor.h"
#include "runtime/pool_budget.h"
#include "runtime/processor_pools.h"

namespace wherry::impl {

class ModuleVariables {
 public:
  // All outlive this.
  struct Parts {
    const ProcessorPools& pools;
    ArenaLayout& layout;
    Trap& trap;
    BlockDirectory& blocks;
    AddressSpace& address_space;
    PageOwners& page_owners;
    MemoryRecords& records;
    PageEngine& engine;
    PoolBudget& budget;
    DeviceSupervisor& devices;
  };

  explicit ModuleVariables(const Parts& parts) : parts_(parts) {}

  // Turns the managed variables of modules that were loaded since the last call into managed
  // memory. They keep their contents and addresses. Requires: no other thread writes them
  // meanwhile. Returns false if some do not fit; they stay ordinary memory. Throws
  // std::system_error.
  bool adopt_new() EXCLUDES(lock_, parts_.devices.lock);

  enum class ShareResult {
    done,
    refused,   // some device cannot have the module at its address; the log says why
    no_space,  // its variables do not fit
  };
  // Loads the module of this address, `name` in log lines, at the same place in all devices, and
  // adopts its managed variables; if `all_variables`, all its writable memory. Throws
  // std::system_error.
  ShareResult share_module(const std::string& name, std::uintptr_t address, bool all_variables)
      EXCLUDES(lock_, parts_.devices.lock);

  // Whether the page belongs to variables that are being adopted: other threads must not find it
  // yet.
  bool is_hidden(PageIndex page) const {
    return page >= hidden_from_.load(std::memory_order_acquire);
  }

  // In a child of fork(): gives the child private copies of the variables. Called before anything
  // else runs in the child.
  void copy_in_forked_child();

 private:
  // Adopts each section. Returns false if some do not fit; the log names them.
  bool adopt_all(const std::vector<ManagedSection>& sections) REQUIRES(lock_)
      EXCLUDES(parts_.devices.lock);
  // Turns the section's pages into managed memory. Returns false if they do not fit; nothing has
  // changed then.
  bool adopt(const ManagedSection& section) EXCLUDES(parts_.devices.lock);
  // The parts of the range that the arena's layout does not contain.
  std::vector<AddressRange> not_placed(AddressRange range) const;
  // Copies the bytes at the stretch's address into the host's pool. Returns false if not all of
  // them fit; then the pool gets none.
  bool fill_host_pool(const PlacedPages& placed) REQUIRES(parts_.devices.lock);
  void leave_host_pool(const PlacedPages& placed) REQUIRES(parts_.devices.lock);
  // Maps the pages from the host's pool, which holds all of them. Throws std::system_error; nothing
  // has changed then.
  void map_on_host(const PlacedPages& placed) REQUIRES(parts_.devices.lock);
  // Enters the pages in the layout: all processes see them in their own pools from now on.
  void show_everywhere(const PlacedPages& placed) REQUIRES(parts_.devices.lock);
  // Enters the variables in the table of what the API knows of addresses.
  void record(const ManagedSection& section);

  // In a forked child: reads the page from the pool that holds it.
  void read_from_any_pool(PageIndex page, std::span<std::byte> into) const;

  static constexpr PageIndex no_page{~std::uint64_t{0}};

  const Parts parts_;
  Mutex lock_{LockOrder::sections};
  ManagedSections sections_ GUARDED_BY(lock_);
  // The first page of the stretch that is being adopted, beyond which no page is in use; no_page
  // while none is being adopted.
  std::atomic<PageIndex> hidden_from_{no_page};
};

}  // namespace wherry::impl
