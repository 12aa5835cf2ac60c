#include "machine/topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/page.h"
#include "base/processor.h"
#include "machine/topology_text.h"

namespace wherry::impl {
namespace {

constexpr std::string_view devices_variable = "WHERRY_DEVICES";
constexpr std::string_view host_nodes_variable = "WHERRY_HOST_NODES";
constexpr std::string_view host_capacity_variable = "WHERRY_HOST_CAPACITY";

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The nearest of the nodes that satisfy `usable`, the lowest id among equals.
template <typename Usable>
const NumaNode* nearest(const Machine& machine, int from, Usable usable) {
  const NumaNode* best = nullptr;
  for (const NumaNode& node : machine.nodes) {
    if (!usable(node)) continue;
    if (best == nullptr || machine.distance(from, node.id) < machine.distance(from, best->id))
      best = &node;
  }
  return best;
}

std::string node_ids_with_memory(const Machine& machine) {
  std::string ids;
  for (const NumaNode& node : machine.nodes) {
    if (node.has_memory()) ids += fmt::format("{}{}", ids.empty() ? "" : ",", node.id);
  }
  return ids;
}

// Why `node` cannot hold pages; nullopt if it can.
std::optional<std::string> why_unusable(const Machine& machine, int node) {
  const NumaNode* found = machine.find(node);
  if (found != nullptr && found->has_memory()) return std::nullopt;
  return fmt::format("node {} {} (nodes with memory: {})", node,
                     found == nullptr ? "does not exist" : "has no memory for this process",
                     node_ids_with_memory(machine));
}

std::optional<TopologyError> check_nodes(const Machine& machine, std::string_view variable,
                                         std::string_view text,
                                         const std::vector<Placed<int>>& nodes) {
  for (const Placed<int>& node : nodes) {
    if (const auto reason = why_unusable(machine, node.value))
      return TopologyError{topology_error(variable, text, node.position, *reason)};
  }
  return std::nullopt;
}

std::vector<int> default_host_nodes(const Machine& machine, const std::vector<int>& device_nodes) {
  const auto with_memory = [](const NumaNode& node) { return node.has_memory(); };
  const auto with_both = [](const NumaNode& node) {
    return node.has_memory() && !node.cpus.empty();
  };
  const auto unclaimed = [&](const NumaNode& node) {
    return with_both(node) && !contains(device_nodes, node.id);
  };
  const NumaNode* host = nearest(machine, machine.start_node, unclaimed);
  if (host == nullptr) host = nearest(machine, machine.start_node, with_both);
  if (host == nullptr) host = nearest(machine, machine.start_node, with_memory);
  return {host->id};
}

std::uint64_t bytes_of(const Machine& machine, const std::vector<int>& nodes) {
  std::uint64_t bytes = 0;
  for (const int node : nodes) bytes += machine.find(node)->total_bytes;
  return bytes;
}

// The nodes for devices that name none: ascending, never empty.
std::vector<int> default_device_nodes(const Machine& machine, const std::vector<int>& host_nodes) {
  std::vector<int> nodes;
  for (const NumaNode& node : machine.nodes) {
    if (node.has_memory() && !contains(host_nodes, node.id)) nodes.push_back(node.id);
  }
  if (nodes.empty()) return {host_nodes.front()};
  if (nodes.size() > max_devices) {
    std::stable_sort(nodes.begin(), nodes.end(), [&](int a, int b) {
      return machine.distance(host_nodes.front(), a) < machine.distance(host_nodes.front(), b);
    });
    nodes.resize(max_devices);
    std::sort(nodes.begin(), nodes.end());
  }
  return nodes;
}

// The bytes that all pools together may hold where a cgroup limits memory: the program gets the
// remainder. Returns nullopt if the nodes are the limit.
std::optional<std::uint64_t> pool_budget(const Machine& machine) {
  if (!machine.memory_limit) return std::nullopt;
  std::uint64_t memory = 0;
  for (const NumaNode& node : machine.nodes) memory += node.total_bytes;
  if (machine.memory_limit->bytes >= memory) return std::nullopt;
  return round_down(machine.memory_limit->available / 16 * 15, block_size);
}

std::string beyond_limit(const Machine& machine, std::uint64_t budget) {
  return fmt::format("capacity is more than the {}M that are left of the {}M in {}", budget >> 20,
                     machine.memory_limit->bytes >> 20, machine.memory_limit->file);
}

// How many devices share a node, and how many the machine, in equal parts.
struct Sharers {
  std::size_t on_node = 1;
  std::size_t in_all = 1;
};

std::size_t default_capacity(const Machine& machine, const NumaNode& node, bool shared_with_host,
                             const Sharers& sharers) {
  const std::uint64_t usable = shared_with_host ? node.total_bytes / 4 : node.total_bytes / 16 * 15;
  std::uint64_t bytes = usable / sharers.on_node;
  // Of a cgroup's limit the host keeps three quarters if devices share its node, else a quarter.
  if (const auto budget = pool_budget(machine))
    bytes = std::min(bytes, (shared_with_host ? *budget / 4 : *budget / 4 * 3) / sharers.in_all);
  return std::max<std::size_t>(round_down(bytes, block_size), min_capacity);
}

// Sets the host's part of a cgroup's limit: what the devices leave, unless the user asked for a
// size. Returns an error if devices and host ask for more than there is.
std::optional<TopologyError> divide_budget(const Machine& machine, std::string_view devices,
                                           const std::vector<DeviceRequest>& requests,
                                           std::string_view host_capacity,
                                           const std::optional<Placed<std::size_t>>& asked,
                                           Topology& topology) {
  const auto budget = pool_budget(machine);
  if (!budget) return std::nullopt;
  std::uint64_t left = *budget;
  for (std::size_t i = 0; i < topology.devices.size(); ++i) {
    const std::size_t capacity = topology.devices[i].capacity;
    if (capacity + min_capacity > left) {
      const auto& request = requests[i].capacity;
      return TopologyError{topology_error(devices_variable, devices,
                                          request ? request->position : requests[i].position,
                                          beyond_limit(machine, left))};
    }
    left -= capacity;
  }
  if (asked && asked->value > left)
    return TopologyError{topology_error(host_capacity_variable, host_capacity, asked->position,
                                        beyond_limit(machine, left))};
  if (asked) return std::nullopt;
  topology.host_capacity = round_down(left, block_size);
  topology.host_limit = machine.memory_limit;
  return std::nullopt;
}

// Gives each request without a node one of `defaults`, in turn. Nodes in `named`, which requests
// name, are used only if all defaults are named.
void assign_nodes(std::vector<DeviceRequest>& requests, const std::vector<int>& named,
                  const std::vector<int>& defaults) {
  std::vector<int> order;
  for (const int node : defaults) {
    if (!contains(named, node)) order.push_back(node);
  }
  if (order.empty()) order = defaults;
  std::size_t next = 0;
  for (DeviceRequest& request : requests) {
    if (!request.node) request.node = {order[next++ % order.size()], request.position};
  }
}

DeviceConfig make_device(int number, const Machine& machine, const NumaNode& node, bool emulated,
                         const Sharers& sharers, const DeviceRequest& request) {
  DeviceConfig device;
  device.number = number;
  device.node = node.id;
  device.emulated = emulated;
  device.capacity = request.capacity ? request.capacity->value
                                     : default_capacity(machine, node, emulated, sharers);
  const NumaNode* workplace =
      nearest(machine, node.id, [](const NumaNode& candidate) { return !candidate.cpus.empty(); });
  if (!node.cpus.empty()) {
    device.cpus = node.cpus;
  } else if (workplace != nullptr) {
    device.cpus = workplace->cpus;
    device.borrows_cpus = true;
  }
  const int cpu_count = static_cast<int>(device.cpus.size());
  device.workers = request.workers.value_or(std::clamp(cpu_count, 1, max_workers));
  device.concurrent = request.concurrent;
  device.kind = request.kind.value_or(DeviceKind::isolated);
  return device;
}

}  // namespace

TopologyResult choose_topology(const Machine& machine, std::string_view devices,
                               std::string_view host_nodes, std::string_view host_capacity) {
  DeviceRequests parsed_devices = parse_devices(devices);
  if (const auto* error = std::get_if<std::string>(&parsed_devices)) return TopologyError{*error};
  const NodeList parsed_hosts = parse_host_nodes(host_nodes);
  if (const auto* error = std::get_if<std::string>(&parsed_hosts)) return TopologyError{*error};
  const SizeText parsed_capacity = parse_size(host_capacity_variable, host_capacity);
  if (const auto* error = std::get_if<std::string>(&parsed_capacity)) return TopologyError{*error};
  auto& requests = std::get<std::vector<DeviceRequest>>(parsed_devices);
  const auto& hosts = std::get<std::vector<Placed<int>>>(parsed_hosts);

  std::vector<Placed<int>> placed;
  for (const DeviceRequest& request : requests) {
    if (request.node) placed.push_back(*request.node);
  }
  if (const auto error = check_nodes(machine, devices_variable, devices, placed)) return *error;
  if (const auto error = check_nodes(machine, host_nodes_variable, host_nodes, hosts))
    return *error;
  std::vector<int> named;
  for (const Placed<int>& node : placed) named.push_back(node.value);

  Topology topology;
  topology.cpu_clock_khz = machine.cpu_clock_khz;
  for (const Placed<int>& node : hosts) topology.host_nodes.push_back(node.value);
  if (hosts.empty()) topology.host_nodes = default_host_nodes(machine, named);
  std::sort(topology.host_nodes.begin(), topology.host_nodes.end());
  topology.host_nodes.erase(std::unique(topology.host_nodes.begin(), topology.host_nodes.end()),
                            topology.host_nodes.end());

  if (const auto& capacity = std::get<0>(parsed_capacity)) {
    const std::uint64_t most = bytes_of(machine, topology.host_nodes);
    if (capacity->value > most) {
      return TopologyError{
          topology_error(host_capacity_variable, host_capacity, capacity->position,
                         fmt::format("capacity is more than the {}M of the host", most >> 20))};
    }
    topology.host_capacity = capacity->value;
  }

  const std::vector<int> defaults = default_device_nodes(machine, topology.host_nodes);
  if (requests.empty()) {
    requests.resize(defaults.size());
    // Devices with nodes of their own are coherent: the program's threads use such nodes best.
    const bool emulated = contains(topology.host_nodes, defaults.front());
    for (DeviceRequest& request : requests)
      request.kind = emulated ? DeviceKind::isolated : DeviceKind::coherent;
  }
  assign_nodes(requests, named, defaults);

  for (const DeviceRequest& request : requests) {
    const NumaNode& node = *machine.find(request.node->value);
    if (request.capacity && request.capacity->value > node.total_bytes) {
      return TopologyError{topology_error(devices_variable, devices, request.capacity->position,
                                          fmt::format("capacity is more than the {}M of node {}",
                                                      node.total_bytes >> 20, node.id))};
    }
    const auto sharers = std::count_if(requests.begin(), requests.end(), [&](const auto& other) {
      return other.node->value == node.id;
    });
    topology.devices.push_back(make_device(static_cast<int>(topology.devices.size()), machine, node,
                                           contains(topology.host_nodes, node.id),
                                           {static_cast<std::size_t>(sharers), requests.size()},
                                           request));
  }
  if (auto error = divide_budget(machine, devices, requests, host_capacity,
                                 std::get<0>(parsed_capacity), topology))
    return *error;
  return topology;
}

std::string more_for_host(const Topology& topology) {
  if (!topology.host_limit) return "raise WHERRY_HOST_CAPACITY";
  return fmt::format("raise the memory limit of the cgroup ({}M in {})",
                     topology.host_limit->bytes >> 20, topology.host_limit->file);
}

std::string more_for_pools(const Topology& topology) {
  // A cgroup's limit is shared by all pools: a device that gets more leaves less to the host.
  return more_for_host(topology) + (topology.host_limit ? "" : " or a device's capacity");
}

std::vector<Processor> processors_by_cpu(const Topology& topology) {
  std::vector<Processor> by_cpu;
  for (std::size_t ordinal = 0; ordinal < topology.devices.size(); ++ordinal) {
    const DeviceConfig& device = topology.devices[ordinal];
    if (device.kind != DeviceKind::coherent || device.borrows_cpus) continue;
    for (const int number : device.cpus) {
      const auto cpu = static_cast<std::size_t>(number);
      if (cpu >= by_cpu.size()) by_cpu.resize(cpu + 1, Processor::host());
      if (by_cpu[cpu].is_host()) by_cpu[cpu] = Processor::device(static_cast<int>(ordinal));
    }
  }
  return by_cpu;
}

}  // namespace wherry::impl
