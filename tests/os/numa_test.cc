// Checked against Linux: policies are read back with get_mempolicy, and pages' nodes with
// move_pages.
#include "os/memory/numa.h"

#include <numaif.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "os/files/fd.h"
#include "support/catch.h"

namespace wherry::impl::numa_test {
namespace {

constexpr std::size_t bytes = std::size_t{1} << 20;

struct SharedMapping {
  Fd file{::memfd_create("numa_test", MFD_CLOEXEC)};
  void* address = MAP_FAILED;

  SharedMapping() {
    REQUIRE(::ftruncate(file.get(), bytes) == 0);
    address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(address != MAP_FAILED);
  }
  ~SharedMapping() { ::munmap(address, bytes); }
};

int policy_of(void* address) {
  int mode = -1;
  REQUIRE(::get_mempolicy(&mode, nullptr, 0, address, MPOL_F_ADDR) == 0);
  return mode;
}

int node_with_memory() {
  const Machine machine = read_machine();
  const auto found = std::find_if(machine.nodes.begin(), machine.nodes.end(),
                                  [](const NumaNode& node) { return node.has_memory(); });
  REQUIRE(found != machine.nodes.end());
  return found->id;
}

}  // namespace

TEST_CASE(
    "the machine has memory, its nodes cover the allowed CPUs, and each is nearest to itself") {
  const Machine machine = read_machine();
  REQUIRE_FALSE(machine.nodes.empty());
  REQUIRE(machine.find(machine.start_node) != nullptr);
  std::vector<int> cpus;
  for (const NumaNode& node : machine.nodes) {
    if (node.has_memory()) CHECK(node.free_bytes <= node.total_bytes);
    CHECK(node.distance.size() == machine.nodes.size());
    for (const NumaNode& other : machine.nodes)
      CHECK(machine.distance(node.id, node.id) <= machine.distance(node.id, other.id));
    cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  CHECK(cpus == allowed_cpus());
}

TEST_CASE("a single node has the memory that Linux reports, several have no more than that") {
  const Machine machine = read_machine();
  std::uint64_t sum = 0;
  for (const NumaNode& node : machine.nodes) sum += node.total_bytes;
  const std::uint64_t total = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  CHECK(sum <= total + total / 8);
  if (machine.nodes.size() == 1) CHECK(sum >= total - total / 8);
}

TEST_CASE("allowed CPUs follow the affinity of the thread") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const std::vector<int> all = allowed_cpus();
  CHECK(all.size() == static_cast<std::size_t>(CPU_COUNT(&before)));
  cpu_set_t last_only;
  CPU_ZERO(&last_only);
  CPU_SET(static_cast<std::size_t>(all.back()), &last_only);
  REQUIRE(::sched_setaffinity(0, sizeof last_only, &last_only) == 0);
  CHECK(allowed_cpus() == std::vector<int>{all.back()});
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("the node that a thread runs on, and its distances to others, are the machine's") {
  const Machine machine = read_machine();
  CHECK(machine.find(current_node()) != nullptr);
  for (const NumaNode& from : machine.nodes) {
    CHECK(node_distance(from.id, from.id) == 10);
    for (const NumaNode& to : machine.nodes)
      CHECK(node_distance(from.id, to.id) == machine.distance(from.id, to.id));
    CHECK(node_distance(from.id, 9999) > 1000);
  }
}

TEST_CASE("a bound file applies the policy to every mapping of it and places pages on the node") {
  SharedMapping mapping;
  const std::vector<int> nodes{node_with_memory()};
  REQUIRE(bind_shared(mapping.address, bytes, nodes) == 0);
  CHECK(policy_of(mapping.address) == MPOL_BIND);

  void* second = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapping.file.get(), 0);
  REQUIRE(second != MAP_FAILED);
  CHECK(policy_of(second) == MPOL_BIND);
  *static_cast<volatile char*>(second) = 1;
  CHECK(node_of(second) == nodes.front());
  ::munmap(second, bytes);
}

TEST_CASE("a preference is set on the file too") {
  SharedMapping mapping;
  const std::vector<int> nodes{node_with_memory()};
  REQUIRE(prefer_shared(mapping.address, bytes, nodes) == 0);
  CHECK(policy_of(mapping.address) != MPOL_DEFAULT);
}

TEST_CASE("placing on nodes that do not exist, or on none, is an error") {
  SharedMapping mapping;
  CHECK(bind_shared(mapping.address, bytes, std::vector<int>{}) == EINVAL);
  CHECK(bind_shared(mapping.address, bytes, std::vector<int>{-1}) == EINVAL);
  CHECK(bind_shared(mapping.address, bytes, std::vector<int>{1000}) == EINVAL);
}

TEST_CASE("a page that was never accessed is on no node, and the query does not create it") {
  SharedMapping mapping;
  CHECK(node_of(mapping.address) == -1);
  CHECK(node_of(mapping.address) == -1);
  CHECK(::lseek(mapping.file.get(), 0, SEEK_DATA) == -1);
  *static_cast<volatile char*>(mapping.address) = 1;
  CHECK(node_of(mapping.address) >= 0);
}

TEST_CASE("the policy of private memory is read as it was set, and ends with the memory") {
  using Kind = MemoryPolicy::Kind;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const auto kind_at = [](std::uintptr_t address) { return mapping_policy(address).value().kind; };
  const int node = node_with_memory();

  CHECK(kind_at(start) == Kind::none);
  REQUIRE(set_mapping_policy(start, bytes / 2, {Kind::local, {}}) == 0);
  CHECK(kind_at(start) == Kind::local);
  CHECK(kind_at(start + bytes / 2) == Kind::none);
  REQUIRE(set_mapping_policy(start, bytes / 2, {Kind::prefers, {node}}) == 0);
  CHECK(kind_at(start) == Kind::prefers);
  CHECK(mapping_policy(start).value().nodes == std::vector<int>{node});
  REQUIRE(set_mapping_policy(start, bytes, {}) == 0);
  CHECK(kind_at(start) == Kind::none);

  REQUIRE(set_mapping_policy(start, bytes, {Kind::local, {}}) == 0);
  REQUIRE(::munmap(memory, bytes) == 0);
  CHECK_FALSE(mapping_policy(start).has_value());
  CHECK(set_mapping_policy(start, bytes, {Kind::local, {}}) == EFAULT);
  REQUIRE(::mmap(memory, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                 0) == memory);
  CHECK(kind_at(start) == Kind::none);
  ::munmap(memory, bytes);
}

TEST_CASE("a thread's placement ends with its scope, and leaves the thread's own policy") {
  using Kind = MemoryPolicy::Kind;
  const std::vector<int> nodes{node_with_memory()};
  const unsigned long mask = 1UL << nodes.front();
  for (const int own : {MPOL_DEFAULT, MPOL_BIND}) {
    CAPTURE(own);
    REQUIRE(::set_mempolicy(own, own == MPOL_BIND ? &mask : nullptr, own == MPOL_BIND ? 65 : 0) ==
            0);
    {
      const ThreadPlacement placement(nodes);
      CHECK(thread_policy().value().kind == Kind::prefers);
      CHECK(thread_policy().value().nodes == nodes);
    }
    CHECK(thread_policy().value().kind == (own == MPOL_BIND ? Kind::other : Kind::none));
    {
      const ThreadPlacement nowhere(std::vector<int>{});
      CHECK(thread_policy().value().kind == (own == MPOL_BIND ? Kind::other : Kind::none));
    }
  }
  REQUIRE(::set_mempolicy(MPOL_DEFAULT, nullptr, 0) == 0);
}

}  // namespace wherry::impl::numa_test
