#include "os/memory/numa.h"

#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

namespace wherry::impl {
namespace {

constexpr int local_distance = 10;
constexpr int far_distance = std::numeric_limits<int>::max();
constexpr int bits_per_word = std::numeric_limits<unsigned long>::digits;

// Since Linux 5.15; older headers lack it.
constexpr int mpol_preferred_many = 5;

struct FreeBitmask {
  void operator()(bitmask* mask) const { numa_free_nodemask(mask); }
};
using NodeMask = std::unique_ptr<bitmask, FreeBitmask>;

struct FreeCpumask {
  void operator()(bitmask* mask) const { numa_free_cpumask(mask); }
};
using CpuMask = std::unique_ptr<bitmask, FreeCpumask>;

std::vector<int> cpus_of_node(int node, std::span<const int> allowed) {
  const CpuMask mask{numa_allocate_cpumask()};
  std::vector<int> cpus;
  if (numa_node_to_cpus(node, mask.get()) != 0) return cpus;
  for (const int cpu : allowed) {
    if (numa_bitmask_isbitset(mask.get(), static_cast<unsigned>(cpu))) cpus.push_back(cpu);
  }
  return cpus;
}

// The same numbers as free(1).
void read_whole_memory(NumaNode& node) {
  struct sysinfo memory {};
  ::sysinfo(&memory);
  node.total_bytes = std::uint64_t{memory.totalram} * memory.mem_unit;
  node.free_bytes = std::uint64_t{memory.freeram} * memory.mem_unit;
}

Machine machine_without_numa() {
  NumaNode node;
  node.cpus = allowed_cpus();
  node.distance = {local_distance};
  read_whole_memory(node);
  return {{std::move(node)}, 0, read_memory_limit()};
}

int set_policy(void* address, std::size_t bytes, int mode, std::span<const int> nodes) {
  if (nodes.empty()) return EINVAL;
  const int highest = *std::max_element(nodes.begin(), nodes.end());
  std::vector<unsigned long> mask(static_cast<std::size_t>(highest / bits_per_word + 1));
  for (const int node : nodes) {
    if (node < 0) return EINVAL;
    mask[static_cast<std::size_t>(node / bits_per_word)] |= 1UL << (node % bits_per_word);
  }
  // Linux reads one bit fewer than the count that it gets.
  const unsigned long mask_bits = mask.size() * bits_per_word + 1;
  if (::mbind(address, bytes, mode, mask.data(), mask_bits, 0) == 0) return 0;
  const int error = errno;
  const bool one_node = numa_available() < 0 || numa_num_configured_nodes() == 1;
  if (one_node && (error == ENOSYS || error == EPERM)) return 0;
  return error;
}

}  // namespace

const NumaNode* Machine::find(int id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [id](const NumaNode& node) { return node.id == id; });
  return found == nodes.end() ? nullptr : &*found;
}

int Machine::distance(int from, int to) const {
  const NumaNode* source = find(from);
  const NumaNode* target = find(to);
  if (source == nullptr || target == nullptr) return far_distance;
  const auto index = static_cast<std::size_t>(target - nodes.data());
  return index < source->distance.size() ? source->distance[index] : far_distance;
}

int current_node() {
  unsigned node = 0;
  return ::getcpu(nullptr, &node) == 0 ? static_cast<int>(node) : 0;
}

int node_distance(int from, int to) {
  if (from == to) return local_distance;
  const int distance = numa_available() < 0 ? 0 : numa_distance(from, to);
  return distance > 0 ? distance : far_distance;
}

std::vector<int> allowed_cpus() {
  // Linux refuses a set smaller than its own. No machine has more than 2^20 CPUs.
  for (std::size_t count = 1024; count <= (std::size_t{1} << 20); count *= 4) {
    std::vector<cpu_set_t> set(CPU_ALLOC_SIZE(count) / sizeof(cpu_set_t) + 1);
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < bytes * 8; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(static_cast<int>(cpu));
    }
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

Machine read_machine() {
  if (numa_available() < 0) return machine_without_numa();
  const std::vector<int> allowed = allowed_cpus();
  const NodeMask memory_allowed{numa_get_mems_allowed()};

  Machine machine;
  machine.memory_limit = read_memory_limit();
  for (int id = 0; id <= numa_max_node(); ++id) {
    if (!numa_bitmask_isbitset(numa_nodes_ptr, static_cast<unsigned>(id))) continue;
    NumaNode node;
    node.id = id;
    node.cpus = cpus_of_node(id, allowed);
    long long free_bytes = 0;
    const long long total_bytes = numa_node_size64(id, &free_bytes);
    if (total_bytes > 0 && numa_bitmask_isbitset(memory_allowed.get(), static_cast<unsigned>(id))) {
      node.total_bytes = static_cast<std::uint64_t>(total_bytes);
      node.free_bytes = static_cast<std::uint64_t>(std::max(free_bytes, 0LL));
    }
    machine.nodes.push_back(std::move(node));
  }
  const bool usable = std::any_of(machine.nodes.begin(), machine.nodes.end(),
                                  [](const NumaNode& node) { return node.has_memory(); });
  if (!usable) return machine_without_numa();  // sysfs is hidden: treated as one node
  // On virtual machines that got memory later, the node has been seen smaller than the machine.
  if (machine.nodes.size() == 1) read_whole_memory(machine.nodes.front());

  for (NumaNode& from : machine.nodes) {
    for (const NumaNode& to : machine.nodes) {
      const int distance = numa_distance(from.id, to.id);
      from.distance.push_back(distance > 0       ? distance
                              : from.id == to.id ? local_distance
                                                 : 2 * local_distance);
    }
  }
  const int start = numa_node_of_cpu(::sched_getcpu());
  machine.start_node = machine.find(start) != nullptr ? start : machine.nodes.front().id;
  return machine;
}

int bind_shared(void* address, std::size_t bytes, std::span<const int> nodes) {
  return set_policy(address, bytes, MPOL_BIND, nodes);
}

int prefer_shared(void* address, std::size_t bytes, std::span<const int> nodes) {
  const int error = set_policy(address, bytes, mpol_preferred_many, nodes);
  if (error != EINVAL || nodes.empty()) return error;
  return set_policy(address, bytes, MPOL_PREFERRED, nodes.first(1));
}

void move_to_node(const std::byte* start, std::size_t pages, std::size_t page_bytes, int node) {
  std::vector<void*> addresses(pages);
  for (std::size_t i = 0; i < pages; ++i)
    addresses[i] = const_cast<std::byte*>(start + i * page_bytes);
  const std::vector<int> nodes(pages, node);
  std::vector<int> status(pages);
  // Without CAP_SYS_NICE, only pages that no other process maps can be moved.
  if (::move_pages(0, pages, addresses.data(), nodes.data(), status.data(), MPOL_MF_MOVE_ALL) != 0)
    ::move_pages(0, pages, addresses.data(), nodes.data(), status.data(), MPOL_MF_MOVE);
}

int node_of(const void* address) {
  void* page = const_cast<void*>(address);
  int status = -1;
  if (::move_pages(0, 1, &page, nullptr, &status, 0) == 0) return status >= 0 ? status : -1;
  return errno == ENOSYS || errno == EPERM ? 0 : -1;
}

}  // namespace wherry::impl
