// Coherent devices on a machine with three NUMA nodes: pages are on the node of the processor that
// has them, by Linux's view of the mappings of this process.
#include "guest/coherent_nodes.h"

namespace wherry::test::coherent_nodes::coherent_placement_test {

TEST_CASE("by default the other nodes are coherent devices", "[guest]") {
  coherent_session("0");
  for (int device = 0; device < 2; ++device) CHECK(device_process(device) == ::getpid());
}

TEST_CASE("first touches by threads of a device's node are on that node", "[guest]") {
  coherent_session("0");
  const Pages pages{2 * block_pages};
  on_cpu(2, [&] { touch(pages); });
  check_all_on(1, pages);
  const Pages others{2 * block_pages};
  on_cpu(0, [&] { touch(others); });
  check_all_on(0, others);
}

TEST_CASE("prefetches and preferred locations place pages on the nodes that they name", "[guest]") {
  coherent_session("0");
  const Pages pages{2 * block_pages};
  touch(pages);
  check_all_on(0, pages);
  for (const int device : {0, 1, host, 1, 0}) {
    CAPTURE(device);
    prefetch(pages, device == host ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                                   : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device});
    check_all_on(device + 1, pages);
  }
  const Pages preferring{2 * block_pages};
  WHERRY_TRY(cuMemAdvise(address_of(preferring), preferring.bytes(),
                         CU_MEM_ADVISE_SET_PREFERRED_LOCATION, {CU_MEM_LOCATION_TYPE_DEVICE, 1}));
  touch(preferring);
  check_all_on(2, preferring);
}

TEST_CASE("a device that is smaller than its data evicts to the host's node", "[guest]") {
  coherent_session("0");
  constexpr std::size_t capacity_pages = device_capacity / page_bytes;
  const Pages pages{capacity_pages * 3 / 2};
  on_cpu(2, [&] { touch(pages); });
  prefetch(pages, {CU_MEM_LOCATION_TYPE_DEVICE, 0});
  touch(pages);  // what was evicted is not mapped
  auto counts = numa_maps(pages);
  CHECK(counts[1] <= capacity_pages);
  CHECK(counts[1] >= capacity_pages / 2);
  CHECK(counts[0] + counts[1] == pages.size());
  std::map<int, std::size_t> reported;
  for (std::size_t i = 0; i < pages.size(); ++i) ++reported[page_state(&pages[i]).node];
  CHECK(reported == counts);
}

}  // namespace wherry::test::coherent_nodes::coherent_placement_test
