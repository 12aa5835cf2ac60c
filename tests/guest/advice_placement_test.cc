// On a machine with three NUMA nodes, two of them the host's, pages that prefer a node of the host
// are on that node. The device is on the third node.
#include <cstdlib>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/stage.h"

namespace wherry::test::advice_placement_test {

namespace {

Stage& stage() {
  static const bool configured = ::setenv("WHERRY_HOST_NODES", "0,1", 1) == 0;
  expect(configured, "setenv");
  static Stage the_stage{"node=2,capacity=16M"};
  return the_stage;
}

CUresult advise_node(const Words& words, CUmem_advise advice, int node) {
  return cuMemAdvise(reinterpret_cast<CUdeviceptr>(words.data()), words.bytes(), advice,
                     {CU_MEM_LOCATION_TYPE_HOST_NUMA, node});
}

// How many pages are on another node of the host's pool, or not in it at all.
std::size_t pages_off_node(const Words& words, int node) {
  const PoolFile pool{0};
  std::size_t off = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (!pool.holds(&words[i]) || pool.node_of(&words[i]) != node) ++off;
  return off;
}

}  // namespace

TEST_CASE("pages that prefer a node of the host are created there", "[guest]") {
  Stage& s = stage();
  for (const int faulting_processor : {host, device0}) {
    for (const int node : {1, 0}) {
      CAPTURE(faulting_processor, node);
      const Words words{4 * region_words};
      WHERRY_TRY(advise_node(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
      s.write_pages(faulting_processor, words.data(), words.bytes(), 3);
      CHECK(pages_off_node(words, node) == 0);
      CHECK(page_state(words.data()).node == node);
      CHECK(s.read_pages(host, words.data(), words.bytes()) == 3 * 64);
    }
  }
}

TEST_CASE("pages return from a device to the node of the host that they prefer", "[guest]") {
  Stage& s = stage();
  for (const int node : {1, 0}) {
    CAPTURE(node);
    const Words words{4 * region_words};
    s.write_pages(device0, words.data(), words.bytes(), 5);
    WHERRY_TRY(advise_node(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
    CHECK(s.residents(words.data()) == bit_of(device0));
    CHECK(s.read_pages(host, words.data(), words.bytes()) == 5 * 64);
    CHECK(pages_off_node(words, node) == 0);
  }
}

TEST_CASE("read-mostly pages that the host writes go to the preferred node", "[guest]") {
  Stage& s = stage();
  for (const int node : {1, 0}) {
    CAPTURE(node);
    const Words words{region_words};
    advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
    // The pages are created on the other node, and prefer this one only afterwards.
    WHERRY_TRY(advise_node(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1 - node));
    s.write_pages(host, words.data(), words.bytes(), 7);
    REQUIRE(pages_off_node(words, 1 - node) == 0);
    WHERRY_TRY(advise_node(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
    CHECK(pages_off_node(words, 1 - node) == 0);
    CHECK(s.read_pages(device0, words.data(), words.bytes()) == 7 * 16);
    s.write(host, words.data(), 8);
    CHECK(s.residents(words.data()) == bit_of(host));
    CHECK(pages_off_node(words, node) == 0);
    CHECK(s.read(device0, words.data()) == 8);
  }
}

TEST_CASE("freeing memory removes its preferred node", "[guest]") {
  Stage& s = stage();
  for (const int node : {1, 0, 1}) {
    CAPTURE(node);
    const Words words{4 * region_words};
    WHERRY_TRY(advise_node(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, node));
    s.write_pages(host, words.data(), words.bytes(), 1);
    CHECK(pages_off_node(words, node) == 0);
  }
}

}  // namespace wherry::test::advice_placement_test
