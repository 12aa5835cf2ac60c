#include "runtime/runtime.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>

#include "base/check.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/patience.h"
#include "memory/touch.h"
#include "migration/at_rest.h"
#include "os/memory/mapping.h"
#include "os/memory/numa.h"
#include "os/process/features.h"
#include "os/process/permissions.h"
#include "os/process/remedies.h"
#include "os/process/resource_limits.h"
#include "os/process/thread.h"
#include "policy/advice_rules.h"
#include "policy/fixed_policies.h"
#include "runtime/arena_size.h"
#include "runtime/visible_devices.h"
#include "trace/recorder.h"
#include "trap/trap_choice.h"
#include "trap/trap_limits.h"

namespace wherry::impl {
namespace {

std::uint64_t memory_of(const Machine& machine) {
  std::uint64_t bytes = 0;
  for (const NumaNode& node : machine.nodes) bytes += node.total_bytes;
  return bytes;
}

std::vector<int> cpus_of(const Machine& machine, const std::vector<int>& nodes) {
  std::vector<int> cpus;
  for (const NumaNode& node : machine.nodes)
    if (std::ranges::find(nodes, node.id) != nodes.end())
      cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  return cpus;
}

// "4K" to "2M", a power of two of pages.
std::optional<unsigned> parse_region_pages(const std::string& text) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  const unsigned long unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 0;
  if (end == text.c_str() || unit == 0 || end[1] != '\0' || value > block_size) return std::nullopt;
  const unsigned long pages = value * unit / page_size;
  if (pages * page_size != value * unit || !std::has_single_bit(pages) || pages > pages_per_block)
    return std::nullopt;
  return static_cast<unsigned>(pages);
}

std::string pool_name(Processor p) {
  return p.is_host() ? "wherry-pool-host" : fmt::format("wherry-pool-dev{}", p.ordinal());
}

PolicyMachine machine_of(const Topology& topology) {
  std::vector<PolicyProcessor> processors{
      {topology.host_nodes.front(), topology.host_capacity / page_size}};
  for (const DeviceConfig& device : topology.devices)
    processors.push_back({device.node, device.capacity / page_size, device.emulated});
  return policy_machine(processors, node_distance);
}

std::unique_ptr<const Policy> make_policy(const RuntimeOptions& options) {
  if (!options.policy) return std::make_unique<MigrateAlways>();
  auto policy = options.policy(machine_of(options.topology));
  if (!policy) throw std::invalid_argument("the policy cannot be made with these parameters");
  return policy;
}

std::vector<std::unique_ptr<MemoryPoolFile>> make_pools(int processors,
                                                        const RuntimeOptions& options) {
  std::vector<std::unique_ptr<MemoryPoolFile>> pools;
  for (int i = 0; i < processors; ++i)
    pools.push_back(std::make_unique<MemoryPoolFile>(pool_name(Processor{i}), options.arena_bytes,
                                                     options.copying.huge_pages,
                                                     options.uffd_access));
  return pools;
}

}  // namespace

std::optional<RuntimeOptions> Runtime::options_from_environment(OptionsError& error,
                                                                const PolicySource& chosen) {
  const Machine machine = read_machine();
  TopologyResult topology =
      choose_topology(machine, environment("WHERRY_DEVICES"), environment("WHERRY_HOST_NODES"),
                      environment("WHERRY_HOST_CAPACITY"));
  if (const auto* wrong = std::get_if<TopologyError>(&topology)) {
    error.message = wrong->message;
    return std::nullopt;
  }
  RuntimeOptions options;
  options.topology = std::get<Topology>(std::move(topology));
  keep_visible(options.topology, environment_value("CUDA_VISIBLE_DEVICES"));
  if (options.topology.devices.empty()) {
    error.kind = OptionsError::Kind::no_device;
    return std::nullopt;
  }
  options.handler_cpus = allowed_cpus();
  options.copier_cpus = cpus_of(machine, options.topology.host_nodes);
  const ArenaSurroundings surroundings{
      memory_of(machine), 1 + static_cast<int>(options.topology.devices.size()), file_size_limit(),
      address_space_limit(), address_space_in_use()};
  auto arena = choose_arena_size(environment("WHERRY_ARENA"), surroundings);
  if (auto* wrong = std::get_if<std::string>(&arena)) {
    error.message = std::move(*wrong);
    return std::nullopt;
  }
  options.arena_bytes = std::get<std::size_t>(arena);
  if (const std::string region = environment("WHERRY_FAULT_REGION"); !region.empty()) {
    const auto pages = parse_region_pages(region);
    if (!pages) {
      error.message =
          fmt::format("WHERRY_FAULT_REGION: '{}' is not a power of two from 4K to 2M", region);
      return std::nullopt;
    }
    options.region_pages = *pages;
  }
  auto copying = choose_copy_settings(environment("WHERRY_COPIERS"),
                                      environment("WHERRY_HUGE_PAGES"), allowed_cpus().size());
  if (auto* wrong = std::get_if<std::string>(&copying)) {
    error.message = std::move(*wrong);
    return std::nullopt;
  }
  options.copying = std::get<CopySettings>(copying);
  options.policy = chosen;
  if (!chosen) {
    auto policy = find_policy(environment("WHERRY_POLICY"));
    if (auto* wrong = std::get_if<std::string>(&policy)) {
      error.message = "WHERRY_POLICY: " + *wrong;
      return std::nullopt;
    }
    options.policy = std::get<PolicySource>(std::move(policy));
  }
  auto trap = choose_trap(environment("WHERRY_TRAP"), permissions(),
                          userfaultfd_remedy(permissions(), read_machine_settings()));
  if (auto* wrong = std::get_if<TrapError>(&trap)) {
    error.message = std::move(wrong->message);
    if (wrong->not_permitted) error.kind = OptionsError::Kind::not_permitted;
    return std::nullopt;
  }
  options.uffd_access = std::get<TrapChoice>(trap).access;
  if (!permits_huge_pages(options.uffd_access)) options.copying.huge_pages = HugePages::never;
  // Devices read it when they start.
  if (const std::string check = environment("WHERRY_CHECK");
      !check.empty() && check != "0" && check != "1") {
    error.message = fmt::format("WHERRY_CHECK: '{}' is neither 0 nor 1", check);
    return std::nullopt;
  }
  options.mappings_budget = read_limits().mappings_budget();
  options.launches_block = environment("CUDA_LAUNCH_BLOCKING") == "1";
  const std::string wait_limits = environment("WHERRY_WAIT_LIMITS");
  if (!wait_limits.empty() && wait_limits != "on" && wait_limits != "off") {
    error.message = fmt::format("WHERRY_WAIT_LIMITS: '{}' is neither 'on' nor 'off'", wait_limits);
    return std::nullopt;
  }
  apply_wait_limits(wait_limits != "off");
  return options;
}

std::unique_ptr<Trap> Runtime::make_trap() const {
  Trap::Parts parts{
      &arena_.layout(), {}, pools_map_huge_pages(), options_.uffd_access, options_.mappings_budget};
  for (const auto& pool : pools_) parts.pools.push_back(pool.get());
  return impl::make_trap(std::move(parts));
}

Runtime::Part::Part(Runtime& runtime, Processor processor)
    : id(processor),
      wrapped_mapper(runtime.options_.wrap_mapper
                         ? runtime.options_.wrap_mapper(processor, runtime.trap_->mapper(processor))
                         : nullptr),
      wrapped_pool(runtime.options_.wrap_pool
                       ? runtime.options_.wrap_pool(
                             processor, *runtime.pools_[static_cast<std::size_t>(processor.index)])
                       : nullptr),
      wrapped_changer(
          runtime.options_.wrap_changer
              ? runtime.options_.wrap_changer(processor, runtime.trap_->changer(processor))
              : nullptr),
      memory(
          processor, wrapped_mapper ? *wrapped_mapper : runtime.trap_->mapper(processor),
          wrapped_pool ? *wrapped_pool : *runtime.pools_[static_cast<std::size_t>(processor.index)],
          runtime.capacity_pages(processor), runtime.blocks_) {}

Runtime::Runtime(const RuntimeOptions& options)
    : options_(options),
      pools_(make_pools(processor_count(), options)),
      arena_(options.arena_bytes, *pools_.front()),
      annex_(options.arena_bytes, device_count()),
      host_memory_(annex_, nodes_to_place_on(), permissions().userfaultfd()),
      trap_(make_trap()),
      blocks_(options.arena_bytes / block_size, processor_count()),
      address_space_(arena_.layout().row_bytes()),
      page_owners_(options.arena_bytes),
      memory_(options.arena_bytes),
      policy_(make_policy(options)) {
  place_pools();
  std::vector<ProcessorMemory*> memories;
  std::vector<ViewChanger*> changers;
  for (int i = 0; i < processor_count(); ++i) {
    parts_.push_back(std::make_unique<Part>(*this, Processor{i}));
    memories.push_back(&parts_.back()->memory);
    changers.push_back(parts_.back()->wrapped_changer ? parts_.back()->wrapped_changer.get()
                                                      : &trap_->changer(Processor{i}));
  }
  engine_ = std::make_unique<PageEngine>(memories, &arena_.layout(), policy_.get());
  switcher_ = std::make_unique<ViewSwitcher>(*engine_, blocks_, changers, options.mappings_budget);
  effects_ = std::make_unique<AdviceEffects>(*engine_, *switcher_, blocks_, advice_);
  evictor_ = std::make_unique<Evictor>(
      *engine_, blocks_, *effects_, [this] { return make_plain_backend(); },
      options.transfer_pages_min);
  sampler_ = std::make_unique<AccessSampler>(*engine_, blocks_, changers);
  background_evictor_ = std::make_unique<BackgroundEvictor>(*engine_, *evictor_, *sampler_);
  copiers_ =
      std::make_unique<Copiers>([this](unsigned copier) { return make_copy_backend(copier); },
                                Copiers::Limits{options.copying.copiers, options.copier_cpus});
  prefetcher_ = std::make_unique<Prefetcher>(
      Prefetcher::Parts{*engine_, blocks_, address_space_, *effects_, *evictor_, *copiers_},
      Prefetcher::Limits{options.transfer_pages_min, options.topology.host_nodes.size() > 1});
  copy_engine_ = std::make_unique<CopyEngine>(
      CopyEngine::Parts{*engine_, blocks_, address_space_, *effects_, *evictor_, *copiers_},
      [this] { return make_plain_backend(); });
  service_ = std::make_unique<FaultService>(arena_.layout(), *engine_, *evictor_, *effects_,
                                            blocks_, address_space_, page_owners_.audiences(),
                                            AdviceRules(options.region_pages), *policy_);

  // Devices are forked before this process has threads of ours: what a fork copies is then simple
  // and small.
  std::vector<std::shared_ptr<const FaultSource>> sources{trap_->attach_host()};
  if (!adopt_new_variables()) throw_errno(ENOMEM, "managed variables");
  {
    const LockGuard guard(arena_lock_);
    for (int device = 0; device < device_count(); ++device) sources.push_back(start_device(device));
  }
  daemon_ = std::make_unique<FaultDaemon>(*service_, options_.handler_cpus);
  for (int i = 0; i < processor_count(); ++i)
    daemon_->listen(Processor{i}, sources[static_cast<std::size_t>(i)]);
  trap_->serve_host(*service_);
  switcher_->start();
  copiers_->start();
  background_evictor_->start();
  for (int device = 0; device < device_count(); ++device) process(device)->run();
  TouchableMemory::announce({&arena_.layout(), page_owners_.view(), Processor::host()});
}

Runtime::~Runtime() = default;

std::optional<int> Runtime::ordinal_of(int number) const {
  for (int device = 0; device < device_count(); ++device)
    if (device_config(device).number == number) return device;
  return std::nullopt;
}

std::uint64_t Runtime::capacity_pages(Processor p) const {
  if (p.is_host() && options_.topology.host_capacity == 0)
    return options_.arena_bytes / page_size;  // bounded by the machine alone
  if (p.is_host()) return options_.topology.host_capacity / page_size;
  return device_config(p.ordinal()).capacity / page_size;
}

std::unique_ptr<CopyBackend> Runtime::make_copy_backend(unsigned copier) const {
  return wrapped(
      impl::make_copy_backend(pools_, copier == 0 ? CopyMethod::write : CopyMethod::read));
}

// For those who wait for the copy: evictions, small copies.
std::unique_ptr<CopyBackend> Runtime::make_plain_backend() const {
  return wrapped(impl::make_plain_backend(pools_, CopyMethod::write));
}

std::unique_ptr<CopyBackend> Runtime::wrapped(std::unique_ptr<CopyBackend> backend) const {
  return options_.wrap_backend ? options_.wrap_backend(std::move(backend)) : std::move(backend);
}

bool Runtime::pools_map_huge_pages() const {
  return std::ranges::all_of(pools_, [](const auto& pool) { return pool->maps_huge_pages(); });
}

std::vector<int> Runtime::pool_fds() const {
  std::vector<int> fds;
  for (const auto& pool : pools_) fds.push_back(pool->file().fd());
  return fds;
}

bool Runtime::has_one_node() const {
  return options_.topology.host_nodes.size() == 1 &&
         std::ranges::all_of(options_.topology.devices, [&](const DeviceConfig& d) {
           return d.node == options_.topology.host_nodes.front();
         });
}

std::span<const int> Runtime::nodes_to_place_on() const {
  return has_one_node() ? std::span<const int>() : options_.topology.host_nodes;
}

void Runtime::place_pools() {
  if (has_one_node()) return;
  for (int i = 0; i < processor_count(); ++i) {
    const Mapping& alias = pools_[static_cast<std::size_t>(i)]->alias_mapping();
    const int error =
        i == 0 ? prefer_shared(alias.data(), alias.size(), options_.topology.host_nodes)
               : bind_shared(alias.data(), alias.size(), std::span(&device_config(i - 1).node, 1));
    if (error != 0) throw_errno(error, "cannot place " + pool_name(Processor{i}) + " on its node");
  }
}

std::shared_ptr<DeviceProcess> Runtime::fork_device(DeviceProcessOptions options) {
  AdoptedRanges& adopted = host_memory_.adopted();
  // A handler of the application that forks would wait for the end of this fork.
  const SignalBlock no_signals;
  adopted.before_fork();
  try {
    options.withheld = adopted.unshared_pages();
    auto process = DeviceProcess::start(options);
    adopted.after_fork(/*child_copies=*/false);
    return process;
  } catch (...) {
    adopted.after_fork(/*child_copies=*/false);
    throw;
  }
}

std::shared_ptr<const FaultSource> Runtime::start_device(int device) {
  const Processor p = Processor::device(device);
  const DeviceConfig& config = device_config(device);
  DeviceProcessOptions options;
  options.ordinal = device;
  options.layout = &arena_.layout();
  options.annex_base = annex_.base();
  options.annex_size = annex_.size();
  options.arena_open = trap_->opens_arena() ? arena_.open_bytes() : 0;
  options.pool_fds = pool_fds();
  options.own_pool = static_cast<std::size_t>(p.index);
  options.huge_pages = pools_map_huge_pages();
  options.workers = config.workers;
  options.page_owners = page_owners_.view();
  options.cpus = config.cpus;
  options.uffd_access = options_.uffd_access;
  part(p).process = fork_device(options);
  if (!live_devices_.put(device, part(p).process)) {
    part(p).process->stop();
    throw_errno(ECANCELED, "the program ends");
  }
  annex_.attach(device, part(p).process);
  return trap_->attach_device(device, part(p).process);
}

void Runtime::end_devices() {
  live_devices_.end_all();
}

std::shared_ptr<DeviceProcess> Runtime::process(int device) const {
  const LockGuard guard(arena_lock_);
  return part(Processor::device(device)).process;
}

void Runtime::restart_device(int device) {
  const Processor p = Processor::device(device);
  // While it runs its mappings are real. Only when it is gone may nobody ask it any more.
  process(device)->stop();
  const LockGuard guard(arena_lock_);
  daemon_->listen(p, nullptr);
  {
    // What is under way there fails now, and nothing else begins before the books are right again.
    // What begins after that fails, too, or concerns the fresh process, which sees its own pool
    // everywhere as the books say.
    const ViewSwitcher::Pause no_changes(*switcher_, p);
    trap_->detach_device(device);
    blocks_.for_each_used(0, blocks_.size(), [&](std::uint64_t, Block& block) {
      const LockGuard block_guard(block.lock);
      block.unmapped(p);
    });
  }
  const auto source = start_device(device);
  daemon_->listen(p, source);
  part(p).process->run();
}

bool Runtime::open_arena(std::size_t needed) {
  if (!trap_->opens_arena()) return true;
  const LockGuard guard(arena_lock_);
  const auto target = arena_.next_open_bytes(needed);
  if (!target) return true;
  for (int device = 0; device < device_count(); ++device) {
    // A device whose process has ended gets the whole open range when it starts again.
    const int error = part(Processor::device(device)).process->open_arena(*target);
    if (error != 0 && error != ESRCH) return false;
  }
  return arena_.open(*target) == 0;
}

std::optional<Allocation> Runtime::place(std::size_t bytes, unsigned flags, Ownership owner) {
  const auto allocation = address_space_.allocate(bytes, flags, owner);
  if (!allocation) return std::nullopt;
  const std::uint64_t first = block_of(allocation->pages().first);
  const std::uint64_t last = block_of(allocation->pages().end() - 1);
  if (!blocks_.prepare(first, last - first + 1) || !open_arena(address_space_.high_water())) {
    address_space_.begin_free(allocation->offset);
    address_space_.end_free(*allocation);
    return std::nullopt;
  }
  page_owners_.allocated(*allocation);
  record_allocation(*allocation);
  return allocation;
}

std::uint64_t Runtime::managed_pages_max() const {
  if (options_.topology.host_capacity == 0) return options_.arena_bytes / page_size;
  std::uint64_t pages = 0;
  for (int i = 0; i < processor_count(); ++i) pages += capacity_pages(Processor{i});
  for (const auto& own : device_pages_) pages -= own.load();
  pages -= host_pages_.load();
  return pages;
}

std::optional<Allocation> Runtime::allocate(std::size_t bytes, unsigned flags) {
  const std::uint64_t most = managed_pages_max();
  if (bytes > most * page_size) return std::nullopt;
  const std::uint64_t pages = round_up(bytes, page_size) / page_size;
  if (managed_pages_.fetch_add(pages) + pages <= most) {
    if (const auto allocation = place(bytes, flags, {})) return allocation;
  }
  managed_pages_.fetch_sub(pages);
  return std::nullopt;
}

bool Runtime::free(std::uintptr_t address) {
  const auto offset = offset_of(address);
  if (!offset) return false;
  std::optional<Allocation> allocation;
  {
    // Nothing may be said of the pages any more once their advice is forgotten.
    const WriteGuard guard(advice_lock_);
    allocation = address_space_.begin_free(*offset);
    if (!allocation) return false;
    page_owners_.freed(*allocation);
    forget_advice(allocation->pages());
  }
  if (is_recorded(EventKind::free))
    record_event({.time_ns = now_ns(),
                  .address = address,
                  .bytes = allocation->pages().bytes(),
                  .kind = EventKind::free});
  const PageSpan pages = allocation->pages();
  wait_for_rest(
      engine_->transfers(), pages, [&] { return !address_space_.is_held(*allocation); },
      "a copy never ended");
  blocks_.for_each_used(block_of(pages.first), block_of(pages.end() - 1) + 1,
                        [&](std::uint64_t number, Block& block) {
                          const PageRun run = run_in_block(number, pages);
                          const RestGuard guard(engine_->transfers(), block, number, run);
                          engine_->release(block, number, run);
                          effects_->released(block, number, run);
                        });
  const auto device = allocation->owner.device;
  auto& counter = device ? claimed_pages(*device) : managed_pages_;
  counter.fetch_sub(pages.count);
  address_space_.end_free(*allocation);
  return true;
}

std::optional<std::uint64_t> Runtime::offset_of(std::uintptr_t address) const {
  const auto page = layout().page_of(address);
  if (!page || *page >= hidden_from_.load(std::memory_order_acquire)) return std::nullopt;
  return *page * page_size + address % page_size;
}

std::optional<Allocation> Runtime::find(std::uintptr_t address) {
  auto offset = offset_of(address);
  if (!offset) {
    // It may be a variable of a module that nothing has said of yet.
    (void)adopt_new_variables();
    offset = offset_of(address);
  }
  return offset ? address_space_.find(*offset) : std::nullopt;
}

std::optional<MemoryRecord> Runtime::find_memory(std::uintptr_t address) {
  auto record = memory_.find(address);
  if (!record && adopt_new_variables()) record = memory_.find(address);
  return record;
}

bool Runtime::overlaps_own(AddressRange range) const {
  const auto overlaps = [&](std::uintptr_t start, std::size_t bytes) {
    return range.start < start + bytes && range.end > start;
  };
  return annex_.overlaps(range) || overlaps(layout().base(), layout().bytes()) ||
         layout().for_each_placed([&](const PlacedPages& placed) {
           return overlaps(placed.address, placed.pages.bytes()) ? EEXIST : 0;
         }) != 0;
}

std::optional<PageWhereabouts> Runtime::page_whereabouts(std::uintptr_t address) {
  if (!find(address)) return std::nullopt;
  const std::uint64_t page = *offset_of(address) / page_size;
  const auto in_block = static_cast<unsigned>(page % pages_per_block);
  PageWhereabouts answer;
  Block* block = blocks_.find(block_of(page));
  if (block == nullptr) return answer;
  // Not while it is in flight: it may have left already where the books say that it is.
  const RestGuard guard(engine_->transfers(), *block, block_of(page), {in_block, 1});
  answer.resident = block->residents(in_block);
  answer.mapped = block->mappers(in_block);
  answer.writable = block->writers(in_block);
  if (answer.resident != 0) {
    const Processor owner{std::countr_zero(answer.resident)};
    const std::byte* alias = part(owner).memory.file.alias(page);
    // The kernel tells the node of pages that this process maps: look at it through our own reading
    // view.
    [[maybe_unused]] const volatile std::byte looked =
        *const_cast<const volatile std::byte*>(alias);
    answer.node = node_of(alias);
  }
  return answer;
}

std::optional<PageExplanation> Runtime::explain(std::uintptr_t address, std::size_t decisions_max) {
  const auto where = page_whereabouts(address);
  const auto offset = offset_of(address);
  if (!where || !offset) return std::nullopt;
  const std::uint64_t page = *offset / page_size;
  return PageExplanation{
      *where, effects_->advice_at(page).advice,
      engine_->decisions().latest(block_of(page), static_cast<unsigned>(page % pages_per_block),
                                  decisions_max)};
}

std::size_t Runtime::used_bytes(int device) const {
  return part(Processor::device(device)).memory.capacity.reserved() * page_size;
}

wherryStats Runtime::stats() const {
  wherryStats stats{};
  stats.size = sizeof stats;
  stats.processors = static_cast<std::uint64_t>(processor_count());
  const auto add = [](std::uint64_t& one, std::uint64_t& sum,
                      const std::atomic<std::uint64_t>& counter) {
    one = counter.load(std::memory_order_relaxed);
    sum += one;
  };
  for (int i = 0; i < processor_count(); ++i) {
    const Counters& from = part(Processor{i}).memory.counters;
    wherryProcessorStats& to = stats.processor[i];
    add(to.faults_missing, stats.faults_missing, from.faults_missing);
    add(to.faults_minor, stats.faults_minor, from.faults_minor);
    add(to.faults_write_protect, stats.faults_write_protect, from.faults_write_protect);
    add(to.populated, stats.populated, from.populated);
    add(to.migrated_in, stats.migrated_in, from.migrated_in);
    add(to.migrated_out, stats.migrated_out, from.migrated_out);
    add(to.duplicated, stats.duplicated, from.duplicated);
    add(to.collapsed, stats.collapsed, from.collapsed);
    add(to.mapped_remotely, stats.mapped_remotely, from.mapped_remotely);
    add(to.evicted, stats.evicted, from.evicted);
    add(to.prefetched, stats.prefetched, from.prefetched);
    add(to.bytes_copied, stats.bytes_copied, from.bytes_copied);
    add(to.service_ns, stats.service_ns, from.service_ns);
    const auto sum_up = [](std::uint64_t& sum, const std::atomic<std::uint64_t>& counter) {
      sum += counter.load(std::memory_order_relaxed);
    };
    sum_up(stats.thrashing_detected, from.thrashing_detected);
    sum_up(stats.throttled, from.throttled);
    sum_up(stats.thrash_pinned, from.thrash_pinned);
    sum_up(stats.thrash_unpinned, from.thrash_unpinned);
  }
  return stats;
}

void Runtime::before_fork() {
  host_memory_.adopted().before_fork();
  begin_fork_of_descriptors();
}

void Runtime::after_fork() {
  end_fork_of_descriptors();
  host_memory_.adopted().after_fork(/*child_copies=*/true);
}

void Runtime::after_fork_in_child() {
  forget_recording();
  host_memory_.adopted().after_fork_in_child();
  copy_variables_in_forked_child();
  close_own_descriptors();
}

}  // namespace wherry::impl
