// On a machine with three NUMA nodes each pool's pages are on its processor's node, wherever the
// accessing thread runs. The host is on node 0, device 0 on node 1, device 1 on node 2, which has
// no CPUs.
#include <sched.h>
#include <unistd.h>

#include <cstring>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/session.h"

namespace wherry::test::managed_placement_test {

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr int device_count = 2;
constexpr std::size_t device_capacity = std::size_t{16} << 20;

int node_of_processor(int processor) {
  return processor;
}

struct Page {
  unsigned char bytes[page_bytes];
};

// The library starts once per process, with the topology that all cases use.
const Session& session() {
  static const Session started{"node=1,capacity=16M;node=2,capacity=16M"};
  return started;
}

void stamp_on_device(int device, const Managed<Page>& memory, unsigned char value) {
  session().launch(device, memory.size(),
                   [pages = memory.data(), value](std::size_t i) { pages[i].bytes[0] = value; });
  WHERRY_TRY(session().wait(device));
}

// Checks that every page of the allocation is in exactly this processor's pool, on its node, by
// Linux's view and by the library's.
void check_all_at(const Managed<Page>& memory, int processor) {
  const int node = node_of_processor(processor);
  std::size_t elsewhere = 0, misplaced = 0, misreported = 0;
  for (int other = 0; other <= device_count; ++other) {
    const PoolFile pool{other};
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (pool.holds(&memory[i]) != (other == processor)) {
        ++elsewhere;
      } else if (other == processor && pool.node_of(&memory[i]) != node) {
        ++misplaced;
      }
    }
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const wherryPageState info = page_state(&memory[i]);
    if (info.resident != 1u << processor || info.node != node) ++misreported;
  }
  CHECK(elsewhere == 0);
  CHECK(misplaced == 0);
  CHECK(misreported == 0);
}

}  // namespace

TEST_CASE("pages are on the node of the processor that they migrate to, and back", "[guest]") {
  session();
  const Managed<Page> memory{512};
  const Page& sample = memory[7];

  std::memset(memory.data(), 1, memory.bytes());
  check_all_at(memory, 0);
  CHECK(mapped_node(::getpid(), &sample) == node_of_processor(0));

  for (int device = 0; device < device_count; ++device) {
    stamp_on_device(device, memory, 2);
    check_all_at(memory, 1 + device);
    CHECK(mapped_node(device_process(device), &sample) == node_of_processor(1 + device));
    CHECK_FALSE(mapped_node(::getpid(), &sample).has_value());
  }

  CHECK(sample.bytes[0] == 2);
  CHECK(mapped_node(::getpid(), &sample) == node_of_processor(0));
  CHECK_FALSE(mapped_node(device_process(1), &sample).has_value());
}

TEST_CASE("a page that a device touches first is created on the device's node", "[guest]") {
  session();
  for (int device = 0; device < device_count; ++device) {
    const Managed<Page> memory{64};
    stamp_on_device(device, memory, 3);
    check_all_at(memory, 1 + device);
  }
}

TEST_CASE("pages that a full device evicts are on the host's node", "[guest]") {
  session();
  constexpr int processor = 1;
  constexpr std::size_t capacity_pages = device_capacity / page_bytes;
  const Managed<Page> memory{capacity_pages * 3 / 2};
  stamp_on_device(processor - 1, memory, 4);

  const PoolFile host{0}, device{processor};
  CHECK(device.allocated_bytes() <= device_capacity);
  std::size_t evicted = 0, misplaced = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool on_host = host.holds(&memory[i]);
    evicted += on_host;
    const int node = on_host ? host.node_of(&memory[i]) : device.node_of(&memory[i]);
    if (node != node_of_processor(on_host ? 0 : processor)) ++misplaced;
  }
  CHECK(evicted >= memory.size() - capacity_pages);
  CHECK(misplaced == 0);
}

TEST_CASE("the kernels of a node without CPUs run on another node's CPUs, and use their own memory",
          "[guest]") {
  session();
  const Managed<int> cpu{1};
  cpu[0] = -1;
  session().run(1, [where = cpu.data()] { *where = ::sched_getcpu(); });
  CHECK(page_state(cpu.data()).node == node_of_processor(2));
  CHECK(cpu[0] >= 0);
  CHECK(page_state(cpu.data()).node == node_of_processor(0));
}

}  // namespace wherry::test::managed_placement_test
