// On a machine with three NUMA nodes advice may name the host's nodes. CPUs 0 and 1 are on node 0,
// CPUs 2 and 3 on node 1, and node 2 has no CPUs.
#include <sched.h>

#include <cstdlib>
#include <functional>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::advice_nodes_test {

namespace {

void run_on_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  expect(::sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

CUresult prefer(const Managed<int>& memory, CUmemLocationType type, int id) {
  return cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory.data()), memory.bytes(),
                     CU_MEM_ADVISE_SET_PREFERRED_LOCATION, {type, id});
}

int preferred_node(const Managed<int>& memory) {
  int type = 0;
  int id = -1;
  const auto address = reinterpret_cast<CUdeviceptr>(memory.data());
  WHERRY_TRY(cuMemRangeGetAttribute(
      &type, sizeof type, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, address, memory.bytes()));
  expect(type == CU_MEM_LOCATION_TYPE_HOST_NUMA,
         "the preferred location is not a node of the host");
  WHERRY_TRY(cuMemRangeGetAttribute(&id, sizeof id, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
                                    address, memory.bytes()));
  return id;
}

int preferred_from_cpu(const Managed<int>& memory, int cpu) {
  run_on_cpu(cpu);
  WHERRY_TRY(prefer(memory, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0));
  return preferred_node(memory);
}

void check_in_process(const char* host_nodes,
                      const std::function<void(const Managed<int>&)>& body) {
  const Outcome outcome = in_fresh_process([&] {
    ::setenv("WHERRY_HOST_NODES", host_nodes, 1);
    const Session session("node=2,capacity=16M");
    body(Managed<int>(1));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace

TEST_CASE("nodes of the host can be preferred, and no others", "[guest]") {
  check_in_process("0,1", [](const Managed<int>& memory) {
    for (const int node : {0, 1}) {
      WHERRY_TRY(prefer(memory, CU_MEM_LOCATION_TYPE_HOST_NUMA, node));
      expect(preferred_node(memory) == node, "a node of the host is not preferred");
    }
    for (const int node : {-1, 2, 3}) {
      expect(prefer(memory, CU_MEM_LOCATION_TYPE_HOST_NUMA, node) == CUDA_ERROR_INVALID_VALUE,
             "a device's node or a missing node is accepted");
    }
  });
}

TEST_CASE("the current node is that of the calling thread's CPU", "[guest]") {
  check_in_process("0,1", [](const Managed<int>& memory) {
    expect(preferred_from_cpu(memory, 0) == 0, "wrong node from CPU 0");
    expect(preferred_from_cpu(memory, 3) == 1, "wrong node from CPU 3");
  });
}

TEST_CASE("from a CPU whose node is not the host's, the current node is the host's nearest",
          "[guest]") {
  check_in_process("1", [](const Managed<int>& memory) {
    expect(preferred_from_cpu(memory, 0) == 1, "wrong node from CPU 0");
    expect(preferred_from_cpu(memory, 2) == 1, "wrong node from CPU 2");
  });
}

}  // namespace wherry::test::advice_nodes_test
