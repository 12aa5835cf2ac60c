// Builds, wires and owns every part: processors with their pools, the page engine, the fault
// daemon, device processes. There is at most one in a process; it is never destroyed, because
// threads may touch managed memory until the very end of the process, and whatever it holds ends
// with the process.
//
// Functions are thread-safe unless they say otherwise. Offsets and sizes are bytes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/topology.h"
#include "devices/device_process.h"
#include "devices/view_changers.h"
#include "faults/fault_daemon.h"
#include "memory/arena.h"
#include "migration/advice_effects.h"
#include "migration/background_evictor.h"
#include "migration/evictor.h"
#include "migration/view_switcher.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "policy/policy.h"
#include "trap/userfaultfd_mapper.h"
#include "wherry/wherry.h"

namespace wherry::impl {

struct RuntimeOptions {
  Topology topology;
  std::vector<int> handler_cpus;  // a fault handler on each
  UffdAccess uffd_access = UffdAccess::full;
  std::size_t arena_bytes = 0;
  unsigned region_pages =
      pages_per_region;  // how much a fault brings along: a power of two, 1 to 512
  std::uint64_t mappings_budget =
      0;  // of one process, beyond which remote ones are declined; 0: no limit
  // Tests put themselves between the engine and the kernel here, to delay or fail single steps.
  std::function<std::unique_ptr<Mapper>(Processor, Mapper&)> wrap_mapper;
  std::function<std::unique_ptr<PoolFile>(Processor, PoolFile&)> wrap_pool;
  std::function<std::unique_ptr<ViewChanger>(Processor, ViewChanger&)> wrap_changer;
};

struct PageWhereabouts {
  ProcessorMask resident = 0;
  ProcessorMask mapped = 0;
  ProcessorMask writable = 0;  // of those
  int node = -1;               // of the copy; -1 when the page is nowhere
};

class Runtime {
 public:
  // Options from the machine and the environment (WHERRY_DEVICES, WHERRY_HOST_NODES,
  // WHERRY_FAULT_REGION). Nothing: something there is malformed; `error` is one line that says what
  // and where.
  static std::optional<RuntimeOptions> options_from_environment(std::string& error);

  // Forks the device processes and starts the fault daemon. Throws std::system_error.
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();

  int device_count() const { return static_cast<int>(options_.topology.devices.size()); }
  const DeviceConfig& device_config(int device) const {
    return options_.topology.devices[static_cast<std::size_t>(device)];
  }
  const Topology& topology() const { return options_.topology; }
  const Arena& arena() const { return arena_; }
  std::size_t metadata_bytes_per_block() const { return blocks_.bytes_per_block(); }

  // Managed memory of `bytes` > 0, zero until written. Nothing: the arena has no room, or the
  // kernel refused.
  std::optional<Allocation> allocate(std::size_t bytes, unsigned flags) EXCLUDES(arena_lock_);
  // Frees the allocation that starts at `address`; false when none does. Its pages leave every pool
  // at once. Requires: no kernel that may touch it is running or queued.
  bool free(std::uintptr_t address) EXCLUDES(advice_lock_);
  // The live allocation that contains `address`.
  std::optional<Allocation> find(std::uintptr_t address) const;
  std::uintptr_t address_of(const Allocation& allocation) const {
    return arena_.base() + allocation.offset;
  }

  // Records what the program says of these pages, and does what follows from it for those that exist. False: they are
  // not (any more) part of one live allocation. Throws std::bad_alloc, and has then changed nothing.
  bool advise(PageSpan pages, const AdviceChange& change) EXCLUDES(advice_lock_);
  // While copies are forbidden read-mostly means nothing; existing ones end at once.
  void forbid_copies() { effects_->forbid_copies(); }
  void permit_copies() { effects_->permit_copies(); }
  // What has been said of live pages; of others: nothing.
  const AdviceMap& advice() const { return advice_; }

  // Where the page is that contains `address`; nothing when no live allocation does.
  std::optional<PageWhereabouts> page_whereabouts(std::uintptr_t address);
  wherryStats stats() const;
  // Which blocks left which pool, and for whom.
  EvictionLog& evictions() const { return evictor_->log(); }
  // Bytes of the device's pool that are in use (reserved by pages there, or about to be).
  std::size_t used_bytes(int device) const;

  // The device's process; a new object after restart_device. Never null.
  std::shared_ptr<DeviceProcess> process(int device) const EXCLUDES(arena_lock_);
  // Ends the device's process, if it still runs, and starts a fresh one. Managed memory keeps its
  // contents. Requires: nobody posts launches to the old process any more. Throws
  // std::system_error.
  void restart_device(int device) EXCLUDES(arena_lock_);

  // What a child made by the application's fork() must let go of: descriptors that would keep pools
  // alive.
  void abandon_in_forked_child();

 private:
  // One processor's parts.
  struct Part {
    Part(Runtime& runtime, Processor processor);

    const Processor id;
    UserfaultfdMapper mapper;
    std::unique_ptr<Mapper> wrapped_mapper;  // null unless a test wraps it
    std::unique_ptr<PoolFile> wrapped_pool;  // likewise
    std::unique_ptr<ViewChanger> changer;    // a HostViewChanger or a DeviceViewChanger
    std::unique_ptr<ViewChanger> wrapped_changer;
    ProcessorMemory memory;
    std::shared_ptr<DeviceProcess> process;  // devices only; guarded by arena_lock_
  };

  Part& part(Processor p) const { return *parts_[static_cast<std::size_t>(p.index)]; }
  int processor_count() const { return 1 + device_count(); }
  std::uint64_t capacity_pages(Processor p) const;
  std::vector<int> pool_fds() const;
  std::unique_ptr<ViewChanger> make_changer(Processor p) const;
  void place_pools();
  // Pages of the host's pool are created on the node from now on; nothing: on any of the host's.
  void place_on_host(PageSpan pages, std::optional<int> node);
  void forget_advice(PageSpan pages);
  // Each makes the processor's arena trap and returns the descriptor to listen to.
  std::shared_ptr<const Userfaultfd> start_host();
  std::shared_ptr<const Userfaultfd> start_device(int device) REQUIRES(arena_lock_);
  std::shared_ptr<const Userfaultfd> trap_arena(Processor p, Fd fresh_userfaultfd);
  bool open_arena(std::size_t needed) EXCLUDES(arena_lock_);

  const RuntimeOptions options_;
  std::vector<std::unique_ptr<MemoryPoolFile>> pools_;  // by processor
  Arena arena_;
  BlockDirectory blocks_;
  AddressSpace address_space_;
  AdviceMap advice_;
  SharedMutex advice_lock_;  // exclusive: allocations end
  std::vector<std::unique_ptr<Part>> parts_;
  mutable Mutex arena_lock_;  // the open part of the arena, and which process each device has
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<PageEngine> engine_;
  std::unique_ptr<ViewSwitcher> switcher_;
  std::unique_ptr<AdviceEffects> effects_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<AccessSampler> sampler_;
  std::unique_ptr<BackgroundEvictor> background_evictor_;
  std::unique_ptr<FaultService> service_;
  std::unique_ptr<FaultDaemon> daemon_;
};

}  // namespace wherry::impl
