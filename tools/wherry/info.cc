#include "info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "byte_text.h"
#include "complain.h"
#include "machine/device_uuid.h"
#include "survey.h"
#include "trap_limits.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string limit_text(std::uint64_t limit) {
  return limit == 0 ? "unlimited" : fmt::to_string(limit);
}

// "0-3,8" from ascending numbers.
std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::string capabilities_text(const KernelFeatures& features) {
  std::string text = fmt::format("Kernel {}\n", features.kernel_release);
  for (const Capability& row : features.capabilities()) {
    text += fmt::format("  {:<4}{:<30}{}\n", row.available ? "yes" : "no", row.name, row.what_for);
    if (!row.available)
      text += fmt::format("      {}: {}\n", row.required ? "needed; to enable" : "to enable",
                          row.how_to_enable);
  }
  return text;
}

std::string trap_text(const Survey& survey) {
  std::string text = "Trap\n";
  if (!survey.trap) return text + "  none can be chosen (WHERRY_TRAP)\n";
  const auto line = [&](const char* what, const std::string& words) {
    text += fmt::format("  {:<12}{}\n", what, words);
  };
  line("runs", to_string(survey.trap->mode) + " (WHERRY_TRAP)");
  line("because", survey.trap->reason);
  for (const std::string& limit : limits_of(*survey.trap)) line("cannot", limit);
  if (!survey.trap->remedy.empty()) line("for better", survey.trap->remedy);
  return text;
}

std::string policy_text(const Survey& survey) {
  if (survey.policy.empty()) return {};
  return fmt::format("Policy\n  {:<12}{} (WHERRY_POLICY)\n  {:<12}{}\n\n", "runs", survey.policy,
                     "because", survey.policy_reason);
}

std::string role_of(const Survey& survey, int node) {
  std::string role;
  const auto& hosts = survey.topology.host_nodes;
  if (std::find(hosts.begin(), hosts.end(), node) != hosts.end()) role = "host";
  for (std::size_t i = 0; i < survey.topology.devices.size(); ++i) {
    if (survey.topology.devices[i].node == node)
      role += fmt::format("{}device {}", role.empty() ? "" : ", ", i);
  }
  return role.empty() ? "not used" : role;
}

std::string nodes_text(const Survey& survey) {
  std::string text = fmt::format("Nodes\n  {:<6}{:<12}{:>12}{:>12}  {:<16}{}\n", "node", "CPUs",
                                 "memory", "free", "distances", "used as");
  for (const impl::NumaNode& node : survey.machine.nodes) {
    text += fmt::format("  {:<6}{:<12}{:>12}{:>12}  {:<16}{}\n", node.id, ranges_text(node.cpus),
                        bytes_text(node.total_bytes), bytes_text(node.free_bytes),
                        fmt::format("{}", fmt::join(node.distance, " ")), role_of(survey, node.id));
  }
  if (const auto& limit = survey.machine.memory_limit)
    text += fmt::format("  all of them together: {} for this control group, {} available ({})\n",
                        bytes_text(limit->bytes), bytes_text(limit->available), limit->file);
  if (survey.machine.nodes.size() > 1)
    text += fmt::format("  speeds of their memory: {}\n", survey.speeds_source);
  return text;
}

// The first part of a device's UUID, long enough for CUDA_VISIBLE_DEVICES.
std::string short_uuid(const impl::DeviceConfig& device) {
  constexpr std::size_t enough = 12;
  return impl::uuid_text(impl::device_uuid(device.number)).substr(0, enough);
}

std::string devices_text(const Survey& survey) {
  std::string text = fmt::format(
      "Devices\n  {:<8}{:<10}{:<6}{:>12}{:>9}  {:<12}{:<12}{:<10}{:<14}{}\n", "device", "kind",
      "node", "capacity", "workers", "CPUs", "concurrent", "process", "uuid", "name");
  for (std::size_t i = 0; i < survey.topology.devices.size(); ++i) {
    const impl::DeviceConfig& device = survey.topology.devices[i];
    const DeviceState state =
        i < survey.devices.size() ? survey.devices[i] : DeviceState{"not started", 0};
    text += fmt::format("  {:<8}{:<10}{:<6}{:>12}{:>9}  {:<12}{:<12}{:<10}{:<14}{}\n", i,
                        to_string(device.kind), device.node, bytes_text(device.capacity),
                        device.workers, ranges_text(device.cpus), device.concurrent ? "yes" : "no",
                        state.process, short_uuid(device), state.name);
  }
  return text;
}

std::string pools_text(const Survey& survey) {
  std::string text = fmt::format("Pools\n  {:<20}{:>12}{:>12}{:>14}\n", "file", "capacity",
                                 "in use", "address space");
  for (const PoolFile& pool : survey.pools) {
    text += fmt::format("  {:<20}{:>12}{:>12}{:>14}\n", pool.name,
                        pool.capacity == 0 ? "the host's" : bytes_text(pool.capacity),
                        bytes_text(pool.used), bytes_text(pool.size));
  }
  return text;
}

// Where pools with 2 MiB pages are made.
std::string_view huge_pools_at(const Survey& survey) {
  if (survey.features.holes.keeps_holes()) {
    switch (survey.features.huge_tmpfs) {
      case impl::HugeTmpfsFiles::Way::own_privilege:
        return "tmpfs";
      case impl::HugeTmpfsFiles::Way::user_namespace:
        return "tmpfs in a user namespace";
      case impl::HugeTmpfsFiles::Way::none:
        break;
    }
  }
  return "memfd";
}

std::string copying_way(const Survey& survey) {
  if (!survey.pools.empty() && survey.pools.front().files > 1)
    return fmt::format("copiers, to {} files of each pool", survey.pools.front().files);
  return survey.features.permissions[impl::Request::io_uring]
             ? "io_uring: copiers"
             : "threads, for want of io_uring: copiers";
}

std::string copying_text(const Survey& survey) {
  const std::string huge = fmt::format("2 MiB pages where whole blocks move, else 4 KiB; in a {}",
                                       huge_pools_at(survey));
  return fmt::format(
      "Copying\n  {:<12}by {}, {} at most (WHERRY_COPIERS)\n  {:<12}{} (WHERRY_HUGE_PAGES)\n",
      "prefetches", copying_way(survey), survey.copying.copiers, "pools",
      survey.huge_pools ? huge : "4 KiB pages");
}

std::string limits_text(const Limits& limits) {
  const auto bytes = [](std::uint64_t limit) {
    return limit == 0 ? "unlimited" : bytes_text(limit);
  };
  return fmt::format(
      "Limits (of this process)\n"
      "  {:<30}{} of {} in use; no more remote mappings from {} on\n  {:<30}{} of {} in use\n  "
      "{:<30}{}\n  {:<30}{}\n  {:<30}{}\n",
      "mappings (vm.max_map_count)", limits.mappings, limit_text(limits.mappings_max),
      limit_text(limits.mappings_budget()), "open files (ulimit -n)", limits.open_files,
      limit_text(limits.open_files_max), "address space (ulimit -v)",
      bytes(limits.address_space_max), "file size (ulimit -f)", bytes(limits.file_size_max),
      "processes (ulimit -u)", limit_text(limits.processes_max));
}

std::string as_text(const Survey& survey) {
  std::string text = capabilities_text(survey.features) + '\n' + trap_text(survey) + '\n' +
                     nodes_text(survey) + '\n';
  if (!survey.topology.devices.empty()) text += devices_text(survey) + '\n';
  if (!survey.pools.empty()) text += pools_text(survey) + '\n';
  text += policy_text(survey);
  return text + copying_text(survey) + '\n' + limits_text(survey.limits);
}

Json limit_json(std::uint64_t limit) {
  return limit == 0 ? Json(nullptr) : Json(limit);
}

Json kernel_json(const KernelFeatures& features) {
  Json kernel{{"release", features.kernel_release}, {"capabilities", Json::array()}};
  for (const Capability& row : features.capabilities()) {
    kernel["capabilities"].push_back({{"name", row.name},
                                      {"available", row.available},
                                      {"required", row.required},
                                      {"what_for", row.what_for},
                                      {"how_to_enable", row.how_to_enable}});
  }
  return kernel;
}

Json trap_json(const Survey& survey) {
  if (!survey.trap) return nullptr;
  return {{"runs", to_string(survey.trap->mode)},
          {"because", survey.trap->reason},
          {"cannot", limits_of(*survey.trap)},
          {"how_to_enable_better", survey.trap->remedy}};
}

Json nodes_json(const Survey& survey) {
  Json nodes = Json::array();
  for (const impl::NumaNode& node : survey.machine.nodes) {
    nodes.push_back({{"node", node.id},
                     {"cpus", node.cpus},
                     {"total_bytes", node.total_bytes},
                     {"free_bytes", node.free_bytes},
                     {"distances", node.distance},
                     {"used_as", role_of(survey, node.id)}});
  }
  return nodes;
}

Json memory_limit_json(const Survey& survey) {
  const auto& limit = survey.machine.memory_limit;
  if (!limit) return nullptr;
  return {{"bytes", limit->bytes}, {"available", limit->available}, {"file", limit->file}};
}

Json devices_json(const Survey& survey) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < survey.topology.devices.size(); ++i) {
    const impl::DeviceConfig& device = survey.topology.devices[i];
    Json row{{"device", i},
             {"kind", to_string(device.kind)},
             {"node", device.node},
             {"emulated", device.emulated},
             {"capacity", device.capacity},
             {"workers", device.workers},
             {"cpus", device.cpus},
             {"concurrent", device.concurrent},
             {"uuid", impl::uuid_text(impl::device_uuid(device.number))}};
    if (i < survey.devices.size()) {
      row["name"] = survey.devices[i].name;
      row["process"] = survey.devices[i].process;
    }
    devices.push_back(std::move(row));
  }
  return devices;
}

Json pools_json(const Survey& survey) {
  Json pools = Json::array();
  for (const PoolFile& pool : survey.pools) {
    pools.push_back({{"name", pool.name},
                     {"capacity", limit_json(pool.capacity)},
                     {"used", pool.used},
                     {"address_space", pool.size}});
  }
  return pools;
}

std::string as_json(const Survey& survey) {
  const Limits& limits = survey.limits;
  const Json json{
      {"kernel", kernel_json(survey.features)},
      {"trap", trap_json(survey)},
      {"nodes", nodes_json(survey)},
      {"node_speeds", survey.speeds_source},
      {"memory_limit", memory_limit_json(survey)},
      {"host_nodes", survey.topology.host_nodes},
      {"devices", devices_json(survey)},
      {"pools", pools_json(survey)},
      {"policy", survey.policy.empty()
                     ? Json()
                     : Json{{"runs", survey.policy}, {"because", survey.policy_reason}}},
      {"copying",
       {{"io_uring", static_cast<bool>(survey.features.permissions[impl::Request::io_uring])},
        {"copiers", survey.copying.copiers},
        {"huge_pages", survey.huge_pools},
        {"huge_pages_in", survey.huge_pools ? Json(huge_pools_at(survey)) : Json()}}},
      {"limits",
       {{"max_map_count", limit_json(limits.mappings_max)},
        {"mappings", limits.mappings},
        {"mappings_budget", limit_json(limits.mappings_budget())},
        {"open_files_max", limit_json(limits.open_files_max)},
        {"open_files", limits.open_files},
        {"address_space_max", limit_json(limits.address_space_max)},
        {"file_size_max", limit_json(limits.file_size_max)},
        {"processes_max", limit_json(limits.processes_max)}}},
      {"error", survey.error.empty() ? Json(nullptr) : Json(survey.error)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

int run_info(bool json) {
  const Survey survey = take_survey();
  const int printed = print_out(json ? as_json(survey) : as_text(survey));
  return survey.error.empty() ? printed : complain(survey.error);
}

}  // namespace wherry::tool
