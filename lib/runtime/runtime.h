// Builds, wires and owns every part of the library below the API: the processors with their pools,
// the page engine, the threads that serve faults, evict and copy, the device processes, and the
// parts through which the API works on memory. It has no logic of its own: callers use the parts.
//
// A process has at most one. It is never destroyed, because threads may access managed memory until
// the process ends, and what it holds ends with the process.
//
// The accessors may be called by any thread; each part says which threads may call it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "devices/annex.h"
#include "devices/live_devices.h"
#include "faults/fault_daemon.h"
#include "faults/fault_service.h"
#include "faults/usage_sampler.h"
#include "machine/node_placement.h"
#include "machine/runtime_options.h"
#include "memory/arena.h"
#include "memory/copy_backend.h"
#include "memory/page_owners.h"
#include "memory/staging_memory.h"
#include "memory/status_board.h"
#include "migration/access_sampler.h"
#include "migration/advice_effects.h"
#include "migration/background_evictor.h"
#include "migration/consolidator.h"
#include "migration/copiers.h"
#include "migration/copy_engine.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/prefetcher.h"
#include "migration/view_switcher.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/block_directory.h"
#include "pages/memory_records.h"
#include "policy/policy.h"
#include "runtime/audience_registry.h"
#include "runtime/device_supervisor.h"
#include "runtime/fork_hooks.h"
#include "runtime/host_memory.h"
#include "runtime/managed_heap.h"
#include "runtime/module_variables.h"
#include "runtime/ordinary_use.h"
#include "runtime/page_inspector.h"
#include "runtime/pinning.h"
#include "runtime/pool_budget.h"
#include "runtime/processor_pools.h"
#include "runtime/program_advice.h"
#include "runtime/system_memory.h"
#include "trap/attached_threads.h"
#include "trap/no_page_table.h"
#include "trap/trap.h"

namespace wherry::impl {

// How many bytes of copies the library may buffer until their streams reach them, so that the calls
// that copy from the program's memory return at once. The usual sizes of such copies fit several
// times.
inline constexpr std::size_t staging_bytes_max = std::size_t{32} << 20;

class Runtime {
 public:
  // Forks the device processes and starts all threads. Throws std::system_error, or
  // std::invalid_argument if the policy refuses its parameters.
  explicit Runtime(const RuntimeOptions& options);
  ~Runtime();

  // ---- The machine, as it was when the runtime was built

  const RuntimeOptions& options() const { return options_; }
  const Topology& topology() const { return options_.topology; }
  int device_count() const { return options_.device_count(); }
  const DeviceConfig& device_config(int device) const { return options_.device(device); }
  // The ordinal of the device that has this number (DeviceConfig) in every process; nullopt if this
  // process does not see it.
  std::optional<int> ordinal_of(int number) const;
  const NodePlacement& placement() const { return placement_; }
  // Whether whole blocks may be mapped by one page-table entry.
  bool maps_huge_pages() const { return pools_.map_huge_pages(); }

  // ---- Memory

  const ArenaLayout& layout() const { return arena_.layout(); }
  // Allocations of managed memory and of devices' own.
  ManagedHeap& heap() { return *heap_; }
  const ManagedHeap& heap() const { return *heap_; }
  // What the API knows of every address that it gave out or was given.
  MemoryRecords& memory() { return memory_; }
  // Pages of the pools, promised to allocations or reserved for memory in files of its own.
  PoolBudget& budget() { return *budget_; }
  // What this process shows to other processes (`wherry top`).
  StatusBoard& status() { return status_; }
  // Which processors may access devices' own memory.
  AudienceRegistry& audiences() { return *audiences_; }
  // Managed variables of modules.
  ModuleVariables& variables() { return *variables_; }
  HostMemory& host_memory() { return host_memory_; }
  Annex& annex() { return annex_; }
  const Annex& annex() const { return annex_; }
  // Buffers for bytes that wait for their turn in a stream.
  StagingMemory& staging() { return staging_; }

  // ---- Where pages are, and what moves them

  ProgramAdvice& advice() { return *advice_; }
  const ProgramAdvice& advice() const { return *advice_; }
  // The program's memory that the library did not allocate.
  SystemMemory& system_memory() { return *system_memory_; }
  AdviceEffects& advice_effects() { return *effects_; }
  Pinning& pinning() { return *pinning_; }
  // Managed memory that programs use as ordinary memory.
  OrdinaryUse& ordinary_use() { return *ordinary_use_; }
  Prefetcher& prefetcher() { return *prefetcher_; }
  CopyEngine& copy_engine() { return *copy_engine_; }
  Consolidator& consolidator() { return *consolidator_; }
  // Null without coherent devices, or where samples are turned off.
  UsageSampler* usage_sampler() { return usage_sampler_.get(); }
  PageInspector& inspector() { return *inspector_; }
  // A log of which blocks left which pool, and for which processor.
  EvictionLog& evictions() { return evictor_->log(); }

  // ---- Processes and threads

  // Which threads of the program count as coherent devices.
  AttachedThreads& attached_threads() { return attached_threads_; }
  DeviceSupervisor& devices() { return *devices_; }
  ForkHooks& fork_hooks() { return *fork_hooks_; }

 private:
  // What belongs to one processor.
  struct ProcessorParts {
    ProcessorParts(Runtime& runtime, Processor processor);

    // Null unless a test wraps the part.
    std::unique_ptr<Mapper> wrapped_mapper;
    std::unique_ptr<PoolFile> wrapped_pool;
    std::unique_ptr<ViewChanger> wrapped_changer;
    ProcessorMemory memory;
  };

  std::unique_ptr<Trap> make_trap() const;
  Mapper& mapper(Processor p);
  std::unique_ptr<CopyBackend> make_copy_backend(unsigned copier) const;
  // Makes a backend for threads that wait for their copies: evictions, small copies.
  std::unique_ptr<CopyBackend> make_plain_backend(CopyMethod method) const;
  // The method for one of several threads that copy at the same time.
  CopyMethod copy_method(unsigned thread) const;
  std::unique_ptr<CopyBackend> wrapped(std::unique_ptr<CopyBackend> backend) const;
  // Make the parts, in this order.
  void make_engines();
  void make_memory_parts();
  // Forks the devices, then starts all threads.
  void start();

  // Members are destroyed from the last to the first: threads first, then what they use, and the
  // pools last.
  const RuntimeOptions options_;
  const NodePlacement placement_{options_.topology};
  const ProcessorPools pools_;
  Arena arena_;
  Annex annex_;
  LiveDevices live_devices_;
  HostMemory host_memory_;
  const std::unique_ptr<Trap> trap_;
  NoPageTable no_page_table_;
  BlockDirectory blocks_;
  StatusBoard status_;
  AddressSpace address_space_;
  PageOwners page_owners_;
  AttachedThreads attached_threads_{processors_by_cpu(options_.topology)};
  MemoryRecords memory_;
  StagingMemory staging_{staging_bytes_max};
  AdviceMap advice_map_;
  PinGate pin_gate_{advice_map_};
  std::vector<std::unique_ptr<ProcessorParts>> processors_;
  // Below the processors' parts, so that the device processes end before these parts do.
  std::unique_ptr<DeviceSupervisor> devices_;
  const std::unique_ptr<const Policy> policy_;
  std::unique_ptr<PageEngine> engine_;
  std::unique_ptr<ViewSwitcher> switcher_;
  std::unique_ptr<AdviceEffects> effects_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<Copiers> copiers_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<ReadAhead> read_ahead_;
  std::unique_ptr<CopyEngine> copy_engine_;
  std::unique_ptr<AccessSampler> sampler_;
  std::unique_ptr<Consolidator> consolidator_;
  std::unique_ptr<AccessSamples> access_samples_;  // null without coherent devices
  std::unique_ptr<UsageSampler> usage_sampler_;
  std::unique_ptr<FaultService> service_;
  std::unique_ptr<PoolBudget> budget_;
  std::unique_ptr<ProgramAdvice> advice_;
  std::unique_ptr<SystemMemory> system_memory_;
  std::unique_ptr<AudienceRegistry> audiences_;
  std::unique_ptr<ModuleVariables> variables_;
  std::unique_ptr<SpareMemory> spare_memory_;
  std::unique_ptr<ManagedHeap> heap_;
  std::unique_ptr<OrdinaryUse> ordinary_use_;
  std::unique_ptr<BackgroundEvictor> background_evictor_;  // has heap_ free spare memory
  std::unique_ptr<Pinning> pinning_;
  std::unique_ptr<PageInspector> inspector_;
  std::unique_ptr<ForkHooks> fork_hooks_;
  std::unique_ptr<FaultDaemon> daemon_;
};

}  // namespace wherry::impl
