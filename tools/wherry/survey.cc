#include "survey.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <wherry/wherry.hpp>

#include "base/environment.h"
#include "base/page.h"
#include "machine/policy_machine.h"
#include "machine/visible_devices.h"
#include "memory/pool.h"
#include "os/process/userfaultfd_remedy.h"
#include "policy/policies.h"

namespace wherry::tool {
namespace {

constexpr std::string_view pool_prefix = "wherry-pool-";

// `target`: "/memfd:wherry-pool-host (deleted)", or a path that ends in the name.
std::string pool_name(const std::string& target) {
  const std::size_t first = target.find(pool_prefix);
  return first == std::string::npos ? std::string()
                                    : target.substr(first, target.find(' ', first) - first);
}

std::vector<PoolFile> open_pools() {
  std::vector<PoolFile> pools;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    PoolFile pool;
    pool.name = pool_name(std::filesystem::read_symlink(entry.path(), ignored).string());
    struct stat status {};
    if (pool.name.empty() || ::stat(entry.path().c_str(), &status) != 0) continue;
    if (!seen.insert({status.st_dev, status.st_ino}).second) continue;
    pool.size = static_cast<std::uint64_t>(status.st_size);
    pool.used = static_cast<std::uint64_t>(status.st_blocks) * 512;
    // A pool may have several files of the same name.
    const auto known =
        std::ranges::find_if(pools, [&](const PoolFile& other) { return other.name == pool.name; });
    if (known == pools.end()) {
      pools.push_back(std::move(pool));
    } else {
      ++known->files;
      known->used += pool.used;
    }
  }
  // Puts the host first, although "wherry-pool-host" sorts after "wherry-pool-dev0".
  std::sort(pools.begin(), pools.end(), [](const PoolFile& a, const PoolFile& b) {
    const bool a_is_device = a.name.find("-dev") != std::string::npos;
    const bool b_is_device = b.name.find("-dev") != std::string::npos;
    return std::tie(a_is_device, a.name) < std::tie(b_is_device, b.name);
  });
  return pools;
}

void look_at_library(Survey& survey) {
  const runtime library;
  survey.pools = open_pools();
  for (PoolFile& pool : survey.pools) {
    if (pool.name == std::string(pool_prefix) + "host")
      pool.capacity = survey.topology.host_capacity;
  }
  for (const device& each : library.devices()) {
    survey.devices.push_back({each.name(), each.process()});
    const std::string name = std::string(pool_prefix) + "dev" + std::to_string(each.ordinal());
    for (PoolFile& pool : survey.pools) {
      if (pool.name == name) pool.capacity = each.total_memory();
    }
  }
}

void look_at_trap(Survey& survey) {
  const impl::Permissions& permissions = survey.features.permissions;
  auto chosen = impl::choose_trap(
      impl::environment("WHERRY_TRAP"), permissions,
      impl::userfaultfd_remedy(permissions, survey.features.unprivileged_userfaultfd));
  if (auto* choice = std::get_if<impl::TrapChoice>(&chosen))
    survey.trap = std::move(*choice);
  else
    survey.error = std::get<impl::TrapError>(std::move(chosen)).message;
}

void look_at_policy(Survey& survey) {
  survey.speeds_source = impl::read_node_speeds().source;
  survey.policy = impl::environment("WHERRY_POLICY");
  survey.policy_reason = "WHERRY_POLICY is set";
  if (!survey.policy.empty() && survey.policy != impl::automatic_policy) return;
  const auto machine = impl::policy_machine_of(survey.topology);
  survey.policy = impl::policy_for(machine.access_costs);
  survey.policy_reason =
      survey.policy == "adaptive"
          ? "auto: devices are nodes of their own, and memory differs in speed"
          : "auto: all processors have the same memory, so devices stand for GPUs";
}

}  // namespace

Survey take_survey() {
  Survey survey;
  survey.features = probe_features();
  look_at_trap(survey);
  if (survey.trap && !survey.trap->mode.userfaultfd)
    survey.features.holes = impl::probe_holes(impl::HoleGuard::small_mapping);
  survey.machine = impl::read_machine();
  const bool serves = survey.trap && impl::serves_system_calls(survey.trap->mode);
  const auto copying =
      impl::choose_copy_settings(impl::environment("WHERRY_COPIERS"),
                                 impl::huge_pages_setting(serves), impl::allowed_cpus().size());
  if (const auto* settings = std::get_if<impl::CopySettings>(&copying)) {
    survey.copying = *settings;
    if (survey.trap)
      survey.huge_pools = impl::SparsePoolFile("wherry-probe", impl::block_size,
                                               settings->huge_pages, survey.trap->mode.userfaultfd)
                              .maps_huge_pages();
  }
  impl::TopologyResult chosen = impl::choose_topology(
      survey.machine, impl::environment("WHERRY_DEVICES"), impl::environment("WHERRY_HOST_NODES"),
      impl::environment("WHERRY_HOST_CAPACITY"));
  if (auto* topology = std::get_if<impl::Topology>(&chosen)) {
    survey.topology = std::move(*topology);
    impl::keep_visible(survey.topology, impl::environment_value("CUDA_VISIBLE_DEVICES"));
    try {
      look_at_library(survey);
      look_at_policy(survey);  // the library accepts it
    } catch (const error& failure) {
      if (survey.error.empty()) survey.error = failure.what();
    }
  } else {
    survey.error = std::get<impl::TopologyError>(chosen).message;
  }
  survey.limits = read_limits();
  return survey;
}

}  // namespace wherry::tool
