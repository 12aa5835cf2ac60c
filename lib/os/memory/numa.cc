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

#include "os/process/cpu_clock.h"

namespace wherry::impl {
namespace {

constexpr int local_distance = 10;
constexpr int far_distance = std::numeric_limits<int>::max();
constexpr int bits_per_word = std::numeric_limits<unsigned long>::digits;

// Since Linux 5.15; older headers lack it.
constexpr int mpol_preferred_many = 5;
// Bits of a mode that say how its nodes are meant (MPOL_MODE_FLAGS of the kernel).
constexpr int policy_flags = 0b111 << 13;
// More nodes than any kernel is built for.
constexpr unsigned long nodes_max = 1024;

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

// Reads the numbers that free(1) shows.
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
  return {{std::move(node)}, 0, read_memory_limit(), cpu_clock_khz()};
}

// Memory policies take sets of nodes as words of bits.
std::vector<unsigned long> mask_of(std::span<const int> nodes) {
  const int highest = *std::max_element(nodes.begin(), nodes.end());
  std::vector<unsigned long> mask(static_cast<std::size_t>(highest / bits_per_word + 1));
  for (const int node : nodes)
    mask[static_cast<std::size_t>(node / bits_per_word)] |= 1UL << (node % bits_per_word);
  return mask;
}

std::vector<int> nodes_in(std::span<const unsigned long> mask) {
  std::vector<int> nodes;
  for (std::size_t bit = 0; bit < mask.size() * bits_per_word; ++bit) {
    if ((mask[bit / bits_per_word] >> (bit % bits_per_word) & 1) != 0)
      nodes.push_back(static_cast<int>(bit));
  }
  return nodes;
}

// Linux reads one bit fewer than the count that it gets.
unsigned long bits_for_linux(const std::vector<unsigned long>& mask) {
  return mask.size() * bits_per_word + 1;
}

bool is_set_of_nodes(std::span<const int> nodes) {
  return !nodes.empty() && std::ranges::all_of(nodes, [](int node) { return node >= 0; });
}

int set_policy(void* address, std::size_t bytes, int mode, std::span<const int> nodes) {
  if (!is_set_of_nodes(nodes)) return EINVAL;
  const std::vector<unsigned long> mask = mask_of(nodes);
  if (::mbind(address, bytes, mode, mask.data(), bits_for_linux(mask), 0) == 0) return 0;
  const int error = errno;
  const bool one_node = numa_available() < 0 || numa_num_configured_nodes() == 1;
  if (one_node && (error == ENOSYS || error == EPERM)) return 0;
  return error;
}

int prefer(void* address, std::size_t bytes, std::span<const int> nodes) {
  const int error = set_policy(address, bytes, mpol_preferred_many, nodes);
  if (error != EINVAL || nodes.empty()) return error;
  return set_policy(address, bytes, MPOL_PREFERRED, nodes.first(1));
}

std::optional<MemoryPolicy> read_policy(void* address, unsigned flags) {
  using Kind = MemoryPolicy::Kind;
  std::vector<unsigned long> mask(nodes_max / bits_per_word);
  int mode = MPOL_DEFAULT;
  if (::get_mempolicy(&mode, mask.data(), nodes_max + 1, address, flags) != 0) return {};
  switch (mode & ~policy_flags) {
    case MPOL_DEFAULT:
      return MemoryPolicy{};
    case MPOL_LOCAL:
      return MemoryPolicy{Kind::local, {}};
    case MPOL_PREFERRED:
    case mpol_preferred_many: {
      std::vector<int> nodes = nodes_in(mask);
      // Linux before 5.14 reports a local policy as a preference without nodes.
      const Kind kind = nodes.empty() ? Kind::local : Kind::prefers;
      return MemoryPolicy{kind, std::move(nodes)};
    }
    default:
      return MemoryPolicy{Kind::other, nodes_in(mask)};
  }
}

// The nodes on which this process may have memory. Returns nullopt if Linux does not report them.
std::optional<std::vector<int>> nodes_with_memory_allowed() {
  std::vector<unsigned long> mask(nodes_max / bits_per_word);
  if (::get_mempolicy(nullptr, mask.data(), nodes_max + 1, nullptr, MPOL_F_MEMS_ALLOWED) != 0)
    return {};
  return nodes_in(mask);
}

// Where each of the pages is: a node, or a negative number if it is absent. Returns false if Linux
// does not report it.
bool find_nodes(std::vector<void*>& pages, std::vector<int>& nodes) {
  nodes.assign(pages.size(), -1);
  return pages.empty() ||
         ::move_pages(0, pages.size(), pages.data(), nullptr, nodes.data(), 0) == 0;
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
  // After chroot() there may be no sysfs, about which libnuma would print a line.
  if (numa_available() < 0 || ::access("/sys/devices/system/node", R_OK) != 0)
    return machine_without_numa();
  const std::vector<int> allowed = allowed_cpus();
  // Not numa_get_mems_allowed(): libnuma prints a line if a seccomp filter refuses the system call.
  const std::optional<std::vector<int>> memory_allowed = nodes_with_memory_allowed();
  // Where Linux refuses this call, it also refuses those that place memory.
  if (!memory_allowed) return machine_without_numa();

  Machine machine;
  machine.memory_limit = read_memory_limit();
  machine.cpu_clock_khz = cpu_clock_khz();
  for (int id = 0; id <= numa_max_node(); ++id) {
    if (!numa_bitmask_isbitset(numa_nodes_ptr, static_cast<unsigned>(id))) continue;
    NumaNode node;
    node.id = id;
    node.cpus = cpus_of_node(id, allowed);
    long long free_bytes = 0;
    const long long total_bytes = numa_node_size64(id, &free_bytes);
    if (total_bytes > 0 && std::ranges::find(*memory_allowed, id) != memory_allowed->end()) {
      node.total_bytes = static_cast<std::uint64_t>(total_bytes);
      node.free_bytes = static_cast<std::uint64_t>(std::max(free_bytes, 0LL));
    }
    machine.nodes.push_back(std::move(node));
  }
  const bool usable = std::any_of(machine.nodes.begin(), machine.nodes.end(),
                                  [](const NumaNode& node) { return node.has_memory(); });
  if (!usable) return machine_without_numa();  // sysfs is hidden: treated as one node
  // On virtual machines to which memory was added later, Linux has reported the node as smaller
  // than the machine.
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
  return prefer(address, bytes, nodes);
}

std::optional<MemoryPolicy> mapping_policy(std::uintptr_t address) {
  return read_policy(reinterpret_cast<void*>(address), MPOL_F_ADDR);
}

std::optional<MemoryPolicy> thread_policy() {
  return read_policy(nullptr, 0);
}

int set_mapping_policy(std::uintptr_t start, std::size_t bytes, const MemoryPolicy& policy) {
  void* const address = reinterpret_cast<void*>(start);
  if (policy.kind == MemoryPolicy::Kind::prefers) return prefer(address, bytes, policy.nodes);
  const int mode = policy.kind == MemoryPolicy::Kind::local ? MPOL_LOCAL : MPOL_DEFAULT;
  return ::mbind(address, bytes, mode, nullptr, 0, 0) == 0 ? 0 : errno;
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

void move_to_one_of(std::uintptr_t start, std::size_t pages, std::size_t page_bytes,
                    std::span<const int> nodes) {
  std::vector<void*> left;
  for (std::size_t i = 0; i < pages; ++i)
    left.push_back(reinterpret_cast<void*>(start + i * page_bytes));
  std::vector<int> status;
  for (const int node : nodes) {
    if (!find_nodes(left, status)) return;
    std::vector<void*> elsewhere;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool fits = std::find(nodes.begin(), nodes.end(), status[i]) != nodes.end();
      if (status[i] >= 0 && !fits) elsewhere.push_back(left[i]);
    }
    if (elsewhere.empty()) return;
    const std::vector<int> targets(elsewhere.size(), node);
    status.assign(elsewhere.size(), -1);
    // Pages of other processes stay, even if this one has the right to move them.
    ::move_pages(0, elsewhere.size(), elsewhere.data(), targets.data(), status.data(),
                 MPOL_MF_MOVE);
    left = std::move(elsewhere);
  }
}

ThreadPlacement::ThreadPlacement(std::span<const int> nodes) {
  if (!is_set_of_nodes(nodes)) return;
  std::vector<unsigned long> earlier(nodes_max / bits_per_word);
  if (::get_mempolicy(&earlier_mode_, earlier.data(), nodes_max + 1, nullptr, 0) != 0) return;
  const std::vector<unsigned long> mask = mask_of(nodes);
  const std::vector<unsigned long> first = mask_of(nodes.first(1));
  if (::set_mempolicy(mpol_preferred_many, mask.data(), bits_for_linux(mask)) == 0 ||
      ::set_mempolicy(MPOL_PREFERRED, first.data(), bits_for_linux(first)) == 0) {
    earlier_nodes_ = std::move(earlier);
  }
}

ThreadPlacement::~ThreadPlacement() {
  if (earlier_nodes_.empty()) return;
  const bool has_nodes = !nodes_in(earlier_nodes_).empty();
  ::set_mempolicy(earlier_mode_, has_nodes ? earlier_nodes_.data() : nullptr,
                  has_nodes ? bits_for_linux(earlier_nodes_) : 0);
}

int node_of(const void* address) {
  void* page = const_cast<void*>(address);
  int status = -1;
  if (::move_pages(0, 1, &page, nullptr, &status, 0) == 0) return status >= 0 ? status : -1;
  return errno == ENOSYS || errno == EPERM ? 0 : -1;
}

}  // namespace wherry::impl
