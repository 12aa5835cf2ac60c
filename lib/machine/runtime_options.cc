#include "machine/runtime_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <variant>

#include "base/environment.h"
#include "base/log.h"
#include "base/patience.h"
#include "machine/arena_size.h"
#include "machine/visible_devices.h"
#include "memory/arena.h"
#include "os/memory/mapping_count.h"
#include "os/memory/numa.h"
#include "os/process/permissions.h"
#include "os/process/resource_limits.h"
#include "os/process/thread.h"
#include "os/process/userfaultfd_remedy.h"
#include "trap/trap_choice.h"

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

// Parses "4K" to "2M", which must be a power of two of pages.
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

// Parses "2", "0.5" or "2,always". Returns false if the text is wrong; empty text changes nothing.
bool parse_sampling(std::string_view text, RuntimeOptions& options) {
  if (text.empty()) return true;
  constexpr std::string_view always = ",always";
  options.samples_always = text.ends_with(always);
  if (options.samples_always) text.remove_suffix(always.size());
  constexpr double percent_max = 50;
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || parsed != end || !(percent >= 0) || percent > percent_max)
    return false;
  options.sampling_per_mille = static_cast<unsigned>(percent * 10 + 0.5);
  return true;
}

}  // namespace

std::optional<RuntimeOptions> RuntimeOptions::from_environment(OptionsError& error,
                                                               const NamedPolicy& chosen) {
  if (const std::string level = environment("WHERRY_LOG"); !parse_log_level(level)) {
    error.message =
        fmt::format("WHERRY_LOG: '{}' is no level: off, error, warning, info or debug", level);
    return std::nullopt;
  }
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
  auto trap = choose_trap(environment("WHERRY_TRAP"), permissions(),
                          userfaultfd_remedy(permissions(), unprivileged_userfaultfd()));
  if (auto* wrong = std::get_if<TrapError>(&trap)) {
    error.message = std::move(wrong->message);
    if (wrong->not_permitted) error.kind = OptionsError::Kind::not_permitted;
    return std::nullopt;
  }
  options.trap = std::get<TrapChoice>(trap).mode;
  auto copying = choose_copy_settings(environment("WHERRY_COPIERS"),
                                      huge_pages_setting(impl::serves_system_calls(options.trap)),
                                      allowed_cpus().size());
  if (auto* wrong = std::get_if<std::string>(&copying)) {
    error.message = std::move(*wrong);
    return std::nullopt;
  }
  options.copying = std::get<CopySettings>(copying);
  // The files of the pools take at most an eighth of the descriptors that the process may have.
  const std::uint64_t pool_files_max =
      descriptors_limit() / (8 * static_cast<std::uint64_t>(options.processor_count()));
  options.copying.pool_files = static_cast<unsigned>(std::min<std::uint64_t>(
      options.copying.pool_files, std::bit_floor(std::max<std::uint64_t>(1, pool_files_max))));
  if (!parse_sampling(environment("WHERRY_SAMPLING"), options)) {
    error.message = fmt::format(
        "WHERRY_SAMPLING: '{}' is not a percentage from 0 to 50, with or without ',always'",
        environment("WHERRY_SAMPLING"));
    return std::nullopt;
  }
  options.policy = chosen.source;
  options.policy_name = chosen.name;
  if (!chosen.source) {
    options.policy_name = environment("WHERRY_POLICY");
    auto policy = find_policy(options.policy_name);
    if (auto* wrong = std::get_if<std::string>(&policy)) {
      error.message = "WHERRY_POLICY: " + *wrong;
      return std::nullopt;
    }
    options.policy = std::get<PolicySource>(std::move(policy));
  }
  // Checked here, because device processes read it only when they start.
  if (const std::string check = environment("WHERRY_CHECK");
      !check.empty() && check != "0" && check != "1") {
    error.message = fmt::format("WHERRY_CHECK: '{}' is neither 0 nor 1", check);
    return std::nullopt;
  }
  options.mappings_budget = impl::mappings_budget(mappings_max());
  options.launches_block = environment("CUDA_LAUNCH_BLOCKING") == "1";
  const std::string wait_limits = environment("WHERRY_WAIT_LIMITS");
  if (!wait_limits.empty() && wait_limits != "on" && wait_limits != "off") {
    error.message = fmt::format("WHERRY_WAIT_LIMITS: '{}' is neither 'on' nor 'off'", wait_limits);
    return std::nullopt;
  }
  apply_wait_limits(wait_limits != "off");
  return options;
}

ProcessorMask RuntimeOptions::coherent() const {
  ProcessorMask mask = 0;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal)
    if (is_coherent(ordinal)) mask |= Processor::device(ordinal).bit();
  return mask;
}

Stripes RuntimeOptions::stripes() const {
  // Device memory gets the last eighth of the arena, or more: twice what devices may hold, because
  // allocations leave gaps.
  constexpr std::size_t divided_min = std::size_t{256} << 30;
  std::uint64_t of_devices = arena_bytes / 8;
  std::uint64_t capacities = 0;
  for (const DeviceConfig& device : topology.devices) capacities += device.capacity;
  of_devices = std::max(of_devices, 2 * capacities) + Arena::placed_bytes(arena_bytes);
  if (arena_bytes < divided_min || of_devices > arena_bytes / 2) return {};
  return {copying.pool_files, round_down(arena_bytes - of_devices, block_size)};
}

std::uint64_t RuntimeOptions::capacity_pages(Processor p) const {
  if (p.is_host() && topology.host_capacity == 0)
    return arena_bytes / page_size;  // only the machine's memory limits the host's pool
  if (p.is_host()) return topology.host_capacity / page_size;
  return device(p.ordinal()).capacity / page_size;
}

}  // namespace wherry::impl
