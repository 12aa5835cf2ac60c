// What policies learn of the machine: from Linux's distances, or from measured speeds of nodes.
#include "machine/policy_machine.h"

#include "machine/node_speeds.h"
#include "support/catch.h"

namespace wherry::test::policy_machine_test {

using namespace wherry::impl;
using impl::policy_machine;

namespace {

// The host on node 0, device 0 on node 1, and device 1 on node 2, which has no CPUs of its own.
const PolicyProcessor processors[] = {{0, 0, false, 0}, {1, 0, false, 1}, {2, 0, false, 0}};

int distance(int from, int to) {
  return from == to ? 10 : 21;
}

AccessCosts costs_with(const NodeSpeeds& speeds) {
  return policy_machine(processors, distance, speeds).access_costs;
}

}  // namespace

TEST_CASE("without speeds, Linux's distances say what accesses cost") {
  const AccessCosts costs = costs_with({});
  CHECK(costs.percent[0][0] == 100);
  CHECK(costs.percent[0][1] == 210);
  CHECK(costs.percent[2][0] == 210);
  CHECK(costs.close[0] == Processor::host().bit());
}

TEST_CASE("measured speeds of the CPUs that a processor's code runs on replace distances") {
  NodeSpeeds speeds;
  speeds.set(0, 0, 100e9);
  speeds.set(0, 1, 40e9);
  speeds.set(0, 2, 400e9);
  const AccessCosts costs = costs_with(speeds);
  CHECK(costs.percent[0][0] == 100);
  CHECK(costs.percent[0][1] == 250);
  // Faster memory than the processor's own: nothing would be gained by a move to its own.
  CHECK(costs.percent[0][2] == 25);
  CHECK((costs.close[0] & Processor::device(1).bit()) != 0);
  // Device 1 has the CPUs of node 0, and fast memory.
  CHECK(costs.percent[2][0] == 400);
  CHECK(costs.percent[2][2] == 100);
  // Node 1's CPUs were not measured.
  CHECK(costs.percent[1][0] == 210);
}

TEST_CASE("speeds that differ little count as equal, and large ratios are limited") {
  NodeSpeeds speeds;
  speeds.set(0, 0, 100e9);
  speeds.set(0, 1, 95e9);
  speeds.set(0, 2, 1);
  const AccessCosts costs = costs_with(speeds);
  CHECK(costs.percent[0][1] == 100);
  CHECK(costs.percent[0][2] == 10'000);
}

TEST_CASE("speeds are read as they were written, on a machine of the same shape only") {
  NodeSpeeds speeds;
  speeds.set(0, 0, 123456789);
  speeds.set(0, 3, 1e12);
  const std::string shape = "node 0: 31 GiB, node 3: 8 GiB";
  const std::string text = to_text(speeds, shape);
  const auto parsed = parse_node_speeds(text, shape);
  REQUIRE(std::holds_alternative<NodeSpeeds>(parsed));
  CHECK(std::get<NodeSpeeds>(parsed).all() == speeds.all());
  CHECK(std::get<std::string>(parse_node_speeds(text, "node 0: 31 GiB")).find("another machine") !=
        std::string::npos);
}

TEST_CASE("a text that is no list of speeds is refused with its line") {
  const std::string good = "wherry node speeds 1\nnode 0: 1 GiB\n";
  const auto refusal = [](const std::string& text) {
    const auto parsed = parse_node_speeds(text, "node 0: 1 GiB");
    return std::holds_alternative<std::string>(parsed) ? std::get<std::string>(parsed) : "";
  };
  CHECK(refusal("") == "line 1 is not 'wherry node speeds 1'");
  CHECK(refusal("wherry node speeds 2\nnode 0: 1 GiB\n0 0 1\n") ==
        "line 1 is not 'wherry node speeds 1'");
  CHECK(refusal(good) == "it has no speeds");
  for (const char* line : {"0 0", "0 0 -5", "0 0 nan", "0 0 inf", "0 -1 5", "x 0 5", "0 0 5 6"})
    CHECK(refusal(good + "# a comment\n" + line + "\n") == "line 4 is not two nodes and a speed");
}

}  // namespace wherry::test::policy_machine_test
