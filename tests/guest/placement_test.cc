// On the virtual machine's three nodes: the topology is read correctly, files are placed where they
// are bound, and the default topology uses every node.
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_features.h"
#include "machine/topology.h"
#include "node_bandwidth.h"
#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/memory/numa.h"
#include "support/catch.h"

namespace wherry::impl::placement_test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 16;

// The nodes of a fresh file's pages that `place` has bound and that were created through another
// mapping.
template <typename Place>
std::vector<int> touched_nodes(Place place) {
  const Fd file(::memfd_create("placed", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), pages * page) == 0);
  const auto map = [&] {
    void* mapping =
        ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(mapping != MAP_FAILED);
    return static_cast<char*>(mapping);
  };
  char* placing = map();
  REQUIRE(place(placing) == 0);
  ::munmap(placing, pages * page);
  char* touching = map();
  std::vector<int> nodes;
  for (std::size_t i = 0; i < pages; ++i) {
    static_cast<volatile char*>(touching)[i * page] = 1;
    nodes.push_back(node_of(touching + i * page));
  }
  ::munmap(touching, pages * page);
  return nodes;
}

}  // namespace

TEST_CASE("three nodes, their CPUs and their distances are read", "[guest]") {
  const Machine machine = read_machine();
  REQUIRE(machine.nodes.size() == 3);
  CHECK(machine.nodes[0].cpus == std::vector<int>{0, 1});
  CHECK(machine.nodes[1].cpus == std::vector<int>{2, 3});
  CHECK(machine.nodes[2].cpus.empty());
  for (const NumaNode& node : machine.nodes) CHECK(node.has_memory());
  CHECK(machine.distance(0, 1) == 21);
  CHECK(machine.distance(2, 0) == 30);
  CHECK(machine.distance(1, 1) == 10);
}

TEST_CASE("the memory of each node is read by the CPUs of each node that has some", "[guest]") {
  const auto measured = tool::measure_node_speeds(read_machine());
  if (const auto* wrong = std::get_if<std::string>(&measured)) FAIL(*wrong);
  const NodeSpeeds& speeds = std::get<NodeSpeeds>(measured);
  CHECK(speeds.all().size() == 6);
  for (const int cpus : {0, 1})
    for (const int memory : {0, 1, 2}) CHECK(speeds.of(cpus, memory).value_or(0) > 1e6);
  CHECK_FALSE(speeds.of(2, 0));
}

TEST_CASE("the start node is the node that the thread runs on", "[guest]") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  for (const int cpu : {0, 2}) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(read_machine().start_node == cpu / 2);
  }
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("a bound file's pages are on its node, whichever thread accesses them", "[guest]") {
  for (int node = 0; node < 3; ++node) {
    const std::vector<int> only{node};
    const auto bind = [&](char* address) { return bind_shared(address, pages * page, only); };
    CHECK(touched_nodes(bind) == std::vector<int>(pages, node));
    const auto prefer = [&](char* address) { return prefer_shared(address, pages * page, only); };
    CHECK(touched_nodes(prefer) == std::vector<int>(pages, node));
  }
}

TEST_CASE("a preference for several nodes stays within them", "[guest]") {
  const std::vector<int> far{1, 2};
  const auto prefer = [&](char* address) { return prefer_shared(address, pages * page, far); };
  for (const int node : touched_nodes(prefer)) CHECK((node == 1 || node == 2));
}

TEST_CASE("the default topology makes a device of every other node", "[guest]") {
  const Machine machine = read_machine();
  const TopologyResult result = choose_topology(machine, "", "0");
  REQUIRE(std::holds_alternative<Topology>(result));
  const Topology& topology = std::get<Topology>(result);
  REQUIRE(topology.devices.size() == 2);
  CHECK(topology.devices[0].node == 1);
  CHECK(topology.devices[1].node == 2);
  // Node 2 has no CPUs. Node 0 is as near to it as node 1, and comes first.
  CHECK(topology.devices[1].cpus == machine.nodes[0].cpus);
  CHECK_FALSE(topology.devices[1].emulated);
}

TEST_CASE("this kernel's features are distinguished from those of newer ones", "[guest]") {
  const tool::KernelFeatures features = tool::probe_features();
  CHECK(features.permissions.userfaultfd() == UffdAccess::full);
  CHECK(features.move_pages);
  CHECK(features.page_frames);
  if (features.kernel_release.rfind("6.1.", 0) == 0)
    CHECK((features.permissions.userfaultfd_features & abi::userfaultfd_feature_poison) == 0);
}

}  // namespace wherry::impl::placement_test
