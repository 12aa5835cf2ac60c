// How a Runtime is built: the topology, the sizes and the limits that the machine and the
// environment ask for, and the wrappers by which tests get between the engine and Linux. Plain
// data; it does not change once the Runtime exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/page.h"
#include "base/processor.h"
#include "machine/copy_settings.h"
#include "machine/policy_source.h"
#include "machine/topology.h"
#include "memory/copy_backend.h"
#include "memory/pool.h"
#include "migration/evictor.h"
#include "trap/mapper.h"
#include "trap/trap.h"
#include "trap/view_changer.h"

namespace wherry::impl {

// Why RuntimeOptions::from_environment() returned no options.
struct OptionsError {
  enum class Kind {
    malformed,
    not_permitted,  // the settings are well-formed, but this machine does not permit what they ask
    no_device,      // the settings hide every device from the program
  };
  Kind kind = Kind::malformed;
  // One line that names the setting and the mistake; empty where the kind says it all.
  std::string message;
};

struct RuntimeOptions {
  Topology topology;
  std::vector<int> handler_cpus;  // every fault handler is pinned to one or several of these
  std::vector<int> copier_cpus;   // the copiers run on these; empty: on any CPU
  TrapMode trap;
  std::size_t arena_bytes = 0;
  // The region that a fault brings along, in pages: a power of two, 1 to 512.
  unsigned region_pages = pages_per_region;
  // Makes the policy that decides where the program's advice does not; empty: MigrateAlways.
  PolicySource policy;
  std::string policy_name;  // as the user named it; empty: the default policy
  // How many mappings one process may have before remote mappings are declined; 0: no limit.
  std::uint64_t mappings_budget = 0;
  CopySettings copying;
  // How much of the program's CPU time samples of accesses may take, in thousandths; 0: none are
  // taken.
  unsigned sampling_per_mille = 20;
  bool samples_always = false;  // see UsageSampler::Limits
  // Runs of fewer pages are prefetched, or evicted, under their block's lock, one region at a time.
  unsigned transfer_pages_min = usual_transfer_pages_min;
  bool launches_block = false;  // each launch waits until its kernel has finished
  // Tests wrap these parts to delay or fail single steps; empty: nothing is wrapped.
  std::function<std::unique_ptr<Mapper>(Processor, Mapper&)> wrap_mapper;
  std::function<std::unique_ptr<PoolFile>(Processor, PoolFile&)> wrap_pool;
  std::function<std::unique_ptr<ViewChanger>(Processor, ViewChanger&)> wrap_changer;
  std::function<std::unique_ptr<CopyBackend>(std::unique_ptr<CopyBackend>)> wrap_backend;

  // Reads the machine and the environment (WHERRY_DEVICES, WHERRY_HOST_NODES, WHERRY_HOST_CAPACITY,
  // WHERRY_ARENA, WHERRY_FAULT_REGION, WHERRY_SAMPLING, WHERRY_COPIERS, WHERRY_HUGE_PAGES,
  // WHERRY_TRAP, WHERRY_WAIT_LIMITS, CUDA_VISIBLE_DEVICES, CUDA_LAUNCH_BLOCKING, and WHERRY_POLICY
  // unless the program has chosen a policy). Returns nullopt, with the reason in `error`, if a
  // setting is wrong.
  static std::optional<RuntimeOptions> from_environment(OptionsError& error,
                                                        const NamedPolicy& chosen = {});

  int device_count() const { return static_cast<int>(topology.devices.size()); }
  int processor_count() const { return 1 + device_count(); }
  const DeviceConfig& device(int ordinal) const {
    return topology.devices[static_cast<std::size_t>(ordinal)];
  }
  bool is_coherent(int ordinal) const { return device(ordinal).kind == DeviceKind::coherent; }
  // The processor in whose page table p's threads access memory.
  Processor table_of(Processor p) const {
    return p.is_host() || is_coherent(p.ordinal()) ? Processor::host() : p;
  }
  ProcessorMask coherent() const;  // the coherent devices
  // How each pool is divided among its files.
  Stripes stripes() const;
  // How many pages p's pool may hold.
  std::uint64_t capacity_pages(Processor p) const;
  // Whether system calls work on managed memory wherever its pages are, as accesses of the program
  // do.
  bool serves_system_calls() const { return impl::serves_system_calls(trap); }
};

}  // namespace wherry::impl
