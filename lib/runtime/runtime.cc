#include "runtime/runtime.h"

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "machine/policy_machine.h"
#include "memory/touch.h"
#include "os/files/fd.h"
#include "os/process/permissions.h"
#include "policy/advice_rules.h"
#include "policy/fixed_policies.h"
#include "runtime/status_facts.h"

namespace wherry::impl {
namespace {

std::unique_ptr<const Policy> make_policy(const RuntimeOptions& options) {
  if (!options.policy) return std::make_unique<MigrateAlways>();
  auto policy = options.policy(policy_machine_of(options.topology));
  if (!policy) throw std::invalid_argument("the policy cannot be made with these parameters");
  return policy;
}

// How many freed pages each pool keeps: a quarter of the pool. Pools without watermarks keep none,
// because no thread would notice that they need the memory.
SpareMemory::Limits spare_limits(const RuntimeOptions& options) {
  SpareMemory::Limits limits{};
  for (int device = 0; device < options.device_count(); ++device) {
    const std::uint64_t pages = options.capacity_pages(Processor::device(device));
    if (Watermarks::of(pages).low != 0) limits[static_cast<std::size_t>(device)] = pages / 4;
  }
  return limits;
}

}  // namespace

std::unique_ptr<Trap> Runtime::make_trap() const {
  std::vector<Trap::Pool> pools;
  for (const auto& pool : pools_.all()) pools.push_back({pool.get(), pool->file().descriptors()});
  return impl::make_trap({.mode = options_.trap,
                          .layout = &arena_.layout(),
                          .pools = std::move(pools),
                          .huge_pages = pools_.views_permit_huge_pages(),
                          .mappings_budget = options_.mappings_budget});
}

Runtime::ProcessorParts::ProcessorParts(Runtime& runtime, Processor p)
    : wrapped_mapper(runtime.options_.wrap_mapper
                         ? runtime.options_.wrap_mapper(p, runtime.mapper(p))
                         : nullptr),
      wrapped_pool(runtime.options_.wrap_pool ? runtime.options_.wrap_pool(p, runtime.pools_.at(p))
                                              : nullptr),
      wrapped_changer(runtime.options_.wrap_changer
                          ? runtime.options_.wrap_changer(
                                p, runtime.trap_->changer(runtime.options_.table_of(p)))
                          : nullptr),
      memory(p, wrapped_mapper ? *wrapped_mapper : runtime.mapper(p),
             wrapped_pool ? *wrapped_pool : runtime.pools_.at(p),
             runtime.options_.capacity_pages(p), runtime.blocks_, runtime.options_.table_of(p),
             &runtime.status_.processor(p)) {}

Mapper& Runtime::mapper(Processor p) {
  return options_.table_of(p) == p ? trap_->mapper(p) : no_page_table_;
}

Runtime::Runtime(const RuntimeOptions& options)
    : options_(options),
      pools_(options_),
      arena_(options.arena_bytes, pools_.host()),
      annex_(options.arena_bytes, device_count(), options.coherent()),
      host_memory_(annex_, placement_.host_nodes(), permissions().userfaultfd()),
      trap_(make_trap()),
      blocks_(options.arena_bytes / block_size, options_.processor_count()),
      status_(status_facts(options, arena_.layout())),
      address_space_(arena_.layout().row_bytes(), options.stripes().bytes()),
      page_owners_(options.arena_bytes),
      memory_(options.arena_bytes),
      policy_(make_policy(options)) {
  pools_.place(placement_);
  make_engines();
  make_memory_parts();
  start();
}

Runtime::~Runtime() = default;

void Runtime::make_engines() {
  std::vector<ProcessorMemory*> memories;
  std::vector<ViewChanger*> changers;
  for (int i = 0; i < options_.processor_count(); ++i) {
    processors_.push_back(std::make_unique<ProcessorParts>(*this, Processor{i}));
    ProcessorParts& parts = *processors_.back();
    memories.push_back(&parts.memory);
    changers.push_back(parts.wrapped_changer ? parts.wrapped_changer.get()
                                             : &trap_->changer(options_.table_of(Processor{i})));
  }
  const auto make_plain = [this] { return make_plain_backend(CopyMethod::write); };
  engine_ = std::make_unique<PageEngine>(memories, &arena_.layout(), policy_.get(), now_ns,
                                         status_.blocks(), &advice_map_,
                                         /*keeps_entries=*/!options_.serves_system_calls());
  switcher_ = std::make_unique<ViewSwitcher>(*engine_, blocks_, changers, options_.mappings_budget);
  effects_ = std::make_unique<AdviceEffects>(*engine_, *switcher_, blocks_, advice_map_);
  // Numbers the evicting threads: as many as the host's pool has files write to it, and the others
  // copy in another way, so that they do not wait for those writes.
  const auto make_evicting = [this, made = std::make_shared<std::atomic<unsigned>>(0)] {
    return make_plain_backend(copy_method(made->fetch_add(1)));
  };
  evictor_ = std::make_unique<Evictor>(*engine_, blocks_, *effects_, make_evicting,
                                       options_.transfer_pages_min);
  sampler_ = std::make_unique<AccessSampler>(*engine_, blocks_, pin_gate_, changers);
  copiers_ =
      std::make_unique<Copiers>([this](unsigned copier) { return make_copy_backend(copier); },
                                Copiers::Limits{options_.copying.copiers, options_.copier_cpus});
  prefetcher_ = std::make_unique<Prefetcher>(
      PrefetchParts{*engine_, blocks_, address_space_, *effects_, *evictor_, *copiers_},
      PrefetchLimits{options_.transfer_pages_min, options_.topology.host_nodes.size() > 1,
                     options_.stripes()});
  read_ahead_ =
      std::make_unique<ReadAhead>(*prefetcher_, *copiers_, blocks_, options_.handler_cpus.size());
  copy_engine_ = std::make_unique<CopyEngine>(
      CopyEngine::Parts{*engine_, blocks_, address_space_, *effects_, *evictor_, *copiers_},
      make_plain);
  consolidator_ = std::make_unique<Consolidator>(
      *engine_, blocks_, pin_gate_, changers, static_cast<unsigned>(options_.handler_cpus.size()));
  if (options_.coherent() != 0) {
    access_samples_ = std::make_unique<AccessSamples>(blocks_.size());
    if (options_.sampling_per_mille != 0)
      usage_sampler_ = std::make_unique<UsageSampler>(
          UsageSampler::Parts{*engine_, blocks_, *changers.front(), *access_samples_,
                              attached_threads_, pin_gate_},
          UsageSampler::Limits{options_.sampling_per_mille, options_.samples_always});
  }
  service_ = std::make_unique<FaultService>(
      arena_.layout(), *engine_, *evictor_, *effects_, blocks_, address_space_,
      page_owners_.audiences(), AdviceRules(options_.region_pages), *policy_, read_ahead_.get(),
      SharedTable{access_samples_ ? &attached_threads_ : nullptr, access_samples_.get()},
      more_for_pools(options_.topology));
}

void Runtime::make_memory_parts() {
  devices_ = std::make_unique<DeviceSupervisor>(
      DeviceSupervisor::Parts{options_, pools_, arena_, annex_, live_devices_,
                              host_memory_.adopted(), *trap_, blocks_, page_owners_, *switcher_});
  budget_ = std::make_unique<PoolBudget>(options_, *engine_, *evictor_);
  advice_ = std::make_unique<ProgramAdvice>(ProgramAdvice::Parts{
      options_.topology, pools_, arena_.layout(), address_space_, advice_map_, *effects_});
  system_memory_ = std::make_unique<SystemMemory>(options_.topology, *copiers_);
  audiences_ = std::make_unique<AudienceRegistry>(AudienceRegistry::Parts{
      page_owners_.audiences(), address_space_, *effects_, *devices_, options_.coherent()});
  variables_ = std::make_unique<ModuleVariables>(
      ModuleVariables::Parts{pools_, arena_.layout(), *trap_, blocks_, address_space_, page_owners_,
                             memory_, *engine_, *budget_, *devices_});
  spare_memory_ = std::make_unique<SpareMemory>(spare_limits(options_));
  heap_ = std::make_unique<ManagedHeap>(ManagedHeap::Parts{
      pools_, arena_.layout(), blocks_, address_space_, page_owners_, memory_, host_memory_,
      *engine_, *evictor_, *effects_, *budget_, *advice_, *devices_, *variables_, *spare_memory_,
      status_, [this] { background_evictor_->notify(); }});
  background_evictor_ = std::make_unique<BackgroundEvictor>(
      *engine_, *evictor_, *sampler_,
      [this](Processor p) { return heap_->give_up_spare(p.ordinal()); },
      [this] { return heap_->free_held(); });
  pinning_ = std::make_unique<Pinning>(Pinning::Parts{pools_, arena_.layout(), blocks_, *engine_,
                                                      *effects_, *advice_, *heap_, pin_gate_});
  ordinary_use_ = std::make_unique<OrdinaryUse>(
      OrdinaryUse::Parts{arena_.layout(), blocks_, address_space_, page_owners_, *engine_,
                         *effects_, *switcher_, *budget_, *advice_, pin_gate_});
  inspector_ = std::make_unique<PageInspector>(
      PageInspector::Parts{options_.processor_count(), blocks_, *engine_, *effects_, *heap_});
  fork_hooks_ = std::make_unique<ForkHooks>(host_memory_, *variables_);
}

void Runtime::start() {
  // Devices are forked before this process has threads of the library: the copy that a fork makes
  // is then small, and no lock is held in it.
  std::vector<std::shared_ptr<const FaultSource>> sources{trap_->attach_host()};
  if (!variables_->adopt_new()) throw_errno(ENOMEM, "managed variables");
  for (auto& source : devices_->fork_all()) sources.push_back(std::move(source));
  daemon_ = std::make_unique<FaultDaemon>(*service_, options_.handler_cpus);
  for (std::size_t i = 0; i < sources.size(); ++i)
    daemon_->listen(Processor{static_cast<int>(i)}, sources[i]);
  trap_->serve_host(service_->in_thread_resolver());
  switcher_->start();
  copiers_->start();
  background_evictor_->start();
  if (pools_.map_huge_pages() && options_.copying.consolidates) consolidator_->start();
  if (usage_sampler_) usage_sampler_->start();
  devices_->run(*daemon_);
  TouchableMemory::announce({&arena_.layout(), page_owners_.view(), Processor::host()});
}

std::optional<int> Runtime::ordinal_of(int number) const {
  for (int device = 0; device < device_count(); ++device)
    if (device_config(device).number == number) return device;
  return std::nullopt;
}

std::unique_ptr<CopyBackend> Runtime::make_copy_backend(unsigned copier) const {
  // If each copier writes to its own file, it copies on its own thread: a kernel thread that copies
  // for it would need a second CPU.
  if (options_.stripes().files() > 1) return make_plain_backend(copy_method(copier));
  return wrapped(impl::make_copy_backend(pools_.all(), copy_method(copier)));
}

CopyMethod Runtime::copy_method(unsigned thread) const {
  return thread < options_.stripes().files() ? CopyMethod::write : CopyMethod::read;
}

std::unique_ptr<CopyBackend> Runtime::make_plain_backend(CopyMethod method) const {
  return wrapped(impl::make_plain_backend(pools_.all(), method));
}

std::unique_ptr<CopyBackend> Runtime::wrapped(std::unique_ptr<CopyBackend> backend) const {
  return options_.wrap_backend ? options_.wrap_backend(std::move(backend)) : std::move(backend);
}

}  // namespace wherry::impl
