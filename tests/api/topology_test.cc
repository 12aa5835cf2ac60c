// Machines other than this one, described as values.
#include "machine/topology.h"

#include <random>
#include <string>

#include "base/page.h"
#include "base/processor.h"
#include "machine/topology_text.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::impl::topology_test {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;
constexpr std::size_t mib = std::size_t{1} << 20;

Machine one_node() {
  return {{{0, {0, 1}, 16 * gib, 12 * gib, {10}}}, 0};
}

// Two sockets, nodes 0 and 1, and memory without CPUs that is nearer to socket 1.
Machine two_sockets_and_cxl() {
  return {{{0, {0, 1}, 16 * gib, 8 * gib, {10, 21, 40}},
           {1, {2, 3, 4}, 16 * gib, 8 * gib, {21, 10, 30}},
           {2, {}, 32 * gib, 32 * gib, {40, 30, 10}}},
          0};
}

Topology chosen(const Machine& machine, std::string_view devices = "",
                std::string_view hosts = "") {
  const TopologyResult result = choose_topology(machine, devices, hosts);
  if (const auto* error = std::get_if<TopologyError>(&result)) FAIL(error->message);
  return std::get<Topology>(result);
}

std::string refused(const Machine& machine, std::string_view devices, std::string_view hosts = "") {
  const TopologyResult result = choose_topology(machine, devices, hosts);
  if (std::holds_alternative<Topology>(result)) FAIL("accepted: " << devices << " | " << hosts);
  return std::get<TopologyError>(result).message;
}

std::vector<int> nodes_of(const Topology& topology) {
  std::vector<int> nodes;
  for (const DeviceConfig& device : topology.devices) nodes.push_back(device.node);
  return nodes;
}

}  // namespace

TEST_CASE("one node gets one emulated device with a quarter of its memory and all its CPUs") {
  for (const char* blank : {"", "  ", "\t"}) {
    const Topology topology = chosen(one_node(), blank, blank);
    CHECK(topology.host_nodes == std::vector<int>{0});
    REQUIRE(topology.devices.size() == 1);
    CHECK(topology.devices[0].node == 0);
    CHECK(topology.devices[0].emulated);
    CHECK(topology.devices[0].kind == DeviceKind::isolated);
    CHECK(topology.devices[0].capacity == 4 * gib);
    CHECK(topology.devices[0].workers == 2);
    CHECK(topology.devices[0].cpus == std::vector<int>{0, 1});
    CHECK(topology.devices[0].concurrent);
  }
}

TEST_CASE(
    "the host is the node where the program starts, and every other node with memory is a device") {
  Machine machine = two_sockets_and_cxl();
  CHECK(chosen(machine).host_nodes == std::vector<int>{0});
  CHECK(nodes_of(chosen(machine)) == std::vector<int>{1, 2});
  CHECK_FALSE(chosen(machine).devices[0].emulated);
  for (const DeviceConfig& device : chosen(machine).devices)
    CHECK(device.kind == DeviceKind::coherent);
  CHECK(chosen(machine, "node=1;node=2").devices[0].kind == DeviceKind::isolated);
  CHECK(chosen(machine).devices[0].capacity == 15 * gib);
  machine.start_node = 1;
  CHECK(chosen(machine).host_nodes == std::vector<int>{1});
  CHECK(nodes_of(chosen(machine)) == std::vector<int>{0, 2});
}

TEST_CASE("a node without CPUs uses those of the nearest node with CPUs") {
  const Topology topology = chosen(two_sockets_and_cxl());
  CHECK(topology.devices[1].node == 2);
  CHECK(topology.devices[1].cpus == std::vector<int>{2, 3, 4});
  CHECK(topology.devices[1].workers == 3);
}

TEST_CASE(
    "a program that starts on a node without memory gets the nearest node with CPUs and memory") {
  Machine machine = two_sockets_and_cxl();
  machine.nodes[0].total_bytes = 0;
  CHECK(chosen(machine).host_nodes == std::vector<int>{1});
  CHECK(nodes_of(chosen(machine)) == std::vector<int>{2});
}

TEST_CASE("if there are more nodes than devices allowed, the farthest are left out") {
  Machine machine;
  for (int id = 0; id < 12; ++id) {
    NumaNode node{id, {id}, gib, gib, {}};
    for (int other = 0; other < 12; ++other)
      node.distance.push_back(id == other ? 10 : 20 + (id * other == 0 ? 12 - id - other : 0));
    machine.nodes.push_back(node);
  }
  CHECK(nodes_of(chosen(machine)) == std::vector<int>{4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("a CPU counts as the first coherent device on its node, or as the host") {
  constexpr Processor host = Processor::host();
  const auto of = [](std::string_view devices) {
    return processors_by_cpu(chosen(two_sockets_and_cxl(), devices, "0"));
  };
  CHECK(of("node=1").empty());
  CHECK(of("node=1,kind=coherent") == std::vector<Processor>{host, host, Processor::device(0),
                                                             Processor::device(0),
                                                             Processor::device(0)});
  CHECK(of("node=1;node=1,kind=coherent;node=1,kind=coherent")[2] == Processor::device(1));
  // Node 0 is the host's: all its CPUs count as the device.
  CHECK(of("node=0,kind=coherent") ==
        std::vector<Processor>{Processor::device(0), Processor::device(0)});
  // Node 2 has no CPUs: the device's workers run on node 1.
  CHECK(of("node=2,kind=coherent").empty());
}

TEST_CASE("every key of a device is used") {
  const Topology topology = chosen(two_sockets_and_cxl(),
                                   "node=1,capacity=8G,workers=5,kind=isolated,concurrent=0; node "
                                   "= 2 , capacity = 4g, kind=coherent");
  REQUIRE(topology.devices.size() == 2);
  CHECK(topology.devices[0].node == 1);
  CHECK(topology.devices[0].capacity == 8 * gib);
  CHECK(topology.devices[0].workers == 5);
  CHECK(topology.devices[0].kind == DeviceKind::isolated);
  CHECK(topology.devices[1].kind == DeviceKind::coherent);
  CHECK(topology.devices[0].cpus == std::vector<int>{2, 3, 4});
  CHECK_FALSE(topology.devices[0].borrows_cpus);
  CHECK(topology.devices[1].borrows_cpus);
  CHECK_FALSE(topology.devices[0].concurrent);
  CHECK(topology.devices[1].node == 2);
  CHECK(topology.devices[1].capacity == 4 * gib);
  CHECK(topology.devices[1].concurrent);
}

TEST_CASE("capacity understands bytes and binary suffixes") {
  CHECK(chosen(one_node(), "capacity=2097152").devices[0].capacity == 2 * mib);
  CHECK(chosen(one_node(), "capacity=2101248").devices[0].capacity == 2 * mib + page_size);
  CHECK(chosen(one_node(), "capacity=4096K").devices[0].capacity == 4 * mib);
  CHECK(chosen(one_node(), "capacity=64m").devices[0].capacity == 64 * mib);
  CHECK(chosen(one_node(), "capacity=16G").devices[0].capacity == 16 * gib);
}

TEST_CASE("devices without a node take the default nodes in turn, unclaimed ones first") {
  const Machine machine = two_sockets_and_cxl();
  CHECK(nodes_of(chosen(machine, "capacity=64M;capacity=64M")) == std::vector<int>{1, 2});
  CHECK(nodes_of(chosen(machine, "workers=1;workers=1;workers=1")) == std::vector<int>{1, 2, 1});
  CHECK(nodes_of(chosen(machine, "workers=1;node=1")) == std::vector<int>{2, 1});
  CHECK(nodes_of(chosen(one_node(), "capacity=64M;capacity=64M")) == std::vector<int>{0, 0});
}

TEST_CASE("devices on one node share the defaults of a single one") {
  const Topology emulated = chosen(one_node(), "workers=1;workers=1");
  CHECK(emulated.devices[0].capacity == 2 * gib);
  CHECK(emulated.devices[1].capacity == 2 * gib);
}

TEST_CASE("the host leaves a node that a device requests, if it can") {
  CHECK(chosen(two_sockets_and_cxl(), "node=0").host_nodes == std::vector<int>{1});
  CHECK(chosen(two_sockets_and_cxl(), "node=0;node=1").host_nodes == std::vector<int>{0});
  CHECK(chosen(two_sockets_and_cxl(), "node=0;node=1").devices[0].emulated);
  CHECK(chosen(one_node(), "node=0").host_nodes == std::vector<int>{0});
}

TEST_CASE("host nodes can be listed, and the other nodes become devices") {
  CHECK(chosen(two_sockets_and_cxl(), "", "1,0").host_nodes == std::vector<int>{0, 1});
  CHECK(nodes_of(chosen(two_sockets_and_cxl(), "", "0-1")) == std::vector<int>{2});
  CHECK(nodes_of(chosen(two_sockets_and_cxl(), "", " 0 - 1 , 1")) == std::vector<int>{2});
  const Topology all_host = chosen(two_sockets_and_cxl(), "", "0-2");
  CHECK(nodes_of(all_host) == std::vector<int>{0});
  CHECK(all_host.devices[0].emulated);
  CHECK(all_host.devices[0].capacity == 4 * gib);
}

TEST_CASE("an error names the variable, the place and the known values") {
  CHECK(refused(one_node(), "node=0,capcity=64M") ==
        "WHERRY_DEVICES: unknown key 'capcity' (known: node, capacity, workers, kind, concurrent) "
        "at character 8 in \"node=0,>>>capcity=64M\"");
  CHECK(refused(one_node(), "", "0,7") ==
        "WHERRY_HOST_NODES: node 7 does not exist (nodes with memory: 0) at character 3 in "
        "\"0,>>>7\"");
}

TEST_CASE("malformed devices are refused at the wrong character") {
  struct Case {
    const char* text;
    const char* what;
    int character;
  };
  const Case cases[] = {
      {"capacity", "expected key=value", 1},
      {"capacity=", "capacity must be", 10},
      {"capacity=64Q", "capacity must be", 10},
      {"capacity=M", "capacity must be", 10},
      {"capacity=-64M", "capacity must be", 10},
      {"capacity=6 4M", "capacity must be", 10},
      {"capacity=64MB", "capacity must be", 10},
      {"capacity=0", "less than 2M", 10},
      {"capacity=1M", "less than 2M", 10},
      {"capacity=2097153", "multiple of 4096", 10},
      {"capacity=17G", "more than the 16384M of node 0", 10},
      {"capacity=99999999999T", "too large", 10},
      {"capacity=99999999999999999999999", "capacity must be", 10},
      {"workers=0", "workers must be", 9},
      {"workers=1025", "workers must be", 9},
      {"workers=two", "workers must be", 9},
      {"node=-1", "node must be", 6},
      {"node=1", "node 1 does not exist", 6},
      {"workers=1;node=99", "node 99 does not exist", 16},
      {"kind=shared", "kind must be isolated or coherent", 6},
      {"concurrent=yes", "concurrent must be", 12},
      {"node=0,node=0", "'node' is given twice", 8},
      {"node=0,", "expected key=value", 8},
      {",node=0", "expected key=value", 1},
      {"node=0;", "empty device", 8},
      {";", "empty device", 1},
      {"=1", "unknown key ''", 1},
      {"Node=0", "unknown key 'Node'", 1},
      {"workers=1;workers=1;workers=1;workers=1;workers=1;workers=1;workers=1;workers=1;workers=1",
       "more than 8 devices", 81},
  };
  for (const Case& wrong : cases) {
    INFO(wrong.text);
    const std::string message = refused(one_node(), wrong.text);
    INFO(message);
    CHECK(message.find("WHERRY_DEVICES: ") == 0);
    CHECK(message.find(wrong.what) != std::string::npos);
    CHECK(message.find(" at character " + std::to_string(wrong.character) + " in ") !=
          std::string::npos);
  }
}

TEST_CASE("malformed host nodes are refused") {
  for (const char* text : {"x", "0-", "-1", "1-0", "0,,1", "0,", "0-9", "0 1", "5000"}) {
    INFO(text);
    CHECK(refused(two_sockets_and_cxl(), "", text).find("WHERRY_HOST_NODES: ") == 0);
  }
}

TEST_CASE("a node without usable memory can be neither device nor host") {
  Machine machine = two_sockets_and_cxl();
  machine.nodes[2].total_bytes = 0;
  CHECK(nodes_of(chosen(machine)) == std::vector<int>{1});
  CHECK(refused(machine, "node=2").find("node 2 has no memory") != std::string::npos);
  CHECK(refused(machine, "", "2").find("node 2 has no memory") != std::string::npos);
}

TEST_CASE("the host's pool may have a capacity, which must fit into its nodes") {
  const auto chosen_capacity = [](std::string_view text) {
    const TopologyResult result = choose_topology(two_sockets_and_cxl(), "", "0,1", text);
    if (const auto* error = std::get_if<TopologyError>(&result)) FAIL(error->message);
    return std::get<Topology>(result).host_capacity;
  };
  const auto why_not = [](std::string_view text) {
    const TopologyResult result = choose_topology(two_sockets_and_cxl(), "", "0,1", text);
    return std::holds_alternative<Topology>(result) ? "accepted"
                                                    : std::get<TopologyError>(result).message;
  };
  CHECK(chosen_capacity("") == 0);
  CHECK(chosen_capacity(" \t") == 0);
  CHECK(chosen_capacity("2M") == 2 * mib);
  CHECK(chosen_capacity(" 20g ") == 20 * gib);
  CHECK(chosen_capacity("32G") == 32 * gib);
  CHECK(why_not("33G") ==
        "WHERRY_HOST_CAPACITY: capacity is more than the 32768M of the host at character 1 in "
        "\">>>33G\"");
  CHECK(why_not("1M").find("less than 2M") != std::string::npos);
  CHECK(why_not("3000001").find("not a multiple of 4096 bytes") != std::string::npos);
  CHECK(why_not(" much").find("at character 2 in \" >>>much\"") != std::string::npos);
}

namespace {

Machine limited_to(Machine machine, std::uint64_t bytes, std::uint64_t available) {
  machine.memory_limit = MemoryLimit{bytes, available, "/sys/fs/cgroup/app/memory.max"};
  return machine;
}

}  // namespace

TEST_CASE("a cgroup's limit is divided among host and device like a node's memory") {
  const Topology topology = chosen(limited_to(one_node(), 512 * mib, 320 * mib));
  REQUIRE(topology.devices.size() == 1);
  CHECK(topology.devices[0].capacity == 74 * mib);  // a quarter of 15/16 of the limit
  CHECK(topology.host_capacity == 226 * mib);
}

TEST_CASE("who wants more memory for the host is told of the limit that applies") {
  const Machine machine = limited_to(one_node(), 512 * mib, 320 * mib);
  CHECK(more_for_host(chosen(machine)) ==
        "raise the memory limit of the cgroup (512M in /sys/fs/cgroup/app/memory.max)");
  CHECK(more_for_pools(chosen(machine)) == more_for_host(chosen(machine)));
  const TopologyResult asked = choose_topology(machine, "capacity=64M", "", "100M");
  REQUIRE(std::holds_alternative<Topology>(asked));
  CHECK(more_for_host(std::get<Topology>(asked)) == "raise WHERRY_HOST_CAPACITY");
  CHECK(more_for_pools(std::get<Topology>(asked)) ==
        "raise WHERRY_HOST_CAPACITY or a device's capacity");
}

TEST_CASE("pools on several nodes share a cgroup's limit") {
  const Topology topology = chosen(limited_to(two_sockets_and_cxl(), 4 * gib, 3200 * mib));
  std::size_t all = topology.host_capacity;
  for (const DeviceConfig& device : topology.devices) all += device.capacity;
  CHECK(topology.devices.size() == 2);
  CHECK(topology.host_capacity >= 700 * mib);
  CHECK(all <= 3000 * mib);
}

TEST_CASE("a limit that is not below the memory changes nothing") {
  const Topology topology = chosen(limited_to(one_node(), 16 * gib, 1 * gib));
  CHECK(topology.devices[0].capacity == 4 * gib);
  CHECK(topology.host_capacity == 0);
}

TEST_CASE("capacities above a cgroup's limit are refused, and the message has the limit's file") {
  const Machine machine = limited_to(one_node(), 512 * mib, 320 * mib);
  for (const char* devices : {"capacity=400M", "capacity=200M;capacity=200M"}) {
    const std::string line = refused(machine, devices);
    CHECK(line.find("WHERRY_DEVICES") == 0);
    CHECK(line.find("512M in /sys/fs/cgroup/app/memory.max") != std::string::npos);
  }
  const TopologyResult host = choose_topology(machine, "capacity=64M", "", "300M");
  REQUIRE(std::holds_alternative<TopologyError>(host));
  CHECK(std::get<TopologyError>(host).message.find("WHERRY_HOST_CAPACITY") == 0);
  CHECK(chosen(machine, "capacity=64M").host_capacity == 236 * mib);
}

TEST_CASE("any text gives either a usable topology or one printable line") {
  std::mt19937_64 random(test::seed());
  const std::string pieces[] = {"node",     "capacity", "workers", "kind", "concurrent",
                                "=",        "=",        ",",       ";",    "-",
                                "0",        "1",        "2",       "64M",  "8G",
                                "isolated", " ",        "\n",      "\xff", "9999999999999999999",
                                "T"};
  for (std::uint64_t round = 0; round < test::scaled(20000); ++round) {
    std::string text;
    for (auto left = random() % 12; left > 0; --left) text += pieces[random() % std::size(pieces)];
    INFO(text);
    const bool for_host = round % 4 == 0;
    const TopologyResult result =
        choose_topology(two_sockets_and_cxl(), for_host ? "" : text, for_host ? text : "");
    if (const auto* error = std::get_if<TopologyError>(&result)) {
      for (const char c : error->message) REQUIRE((c >= ' ' && c <= '~'));
      continue;
    }
    const Topology& topology = std::get<Topology>(result);
    REQUIRE_FALSE(topology.host_nodes.empty());
    REQUIRE_FALSE(topology.devices.empty());
    REQUIRE(topology.devices.size() <= max_devices);
    for (const DeviceConfig& device : topology.devices) {
      REQUIRE(device.capacity >= min_capacity);
      REQUIRE(device.capacity % page_size == 0);
      REQUIRE(device.workers >= 1);
      REQUIRE_FALSE(device.cpus.empty());
    }
  }
}

}  // namespace wherry::impl::topology_test
