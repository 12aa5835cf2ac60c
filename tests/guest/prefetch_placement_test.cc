// On a machine with three NUMA nodes, two of them the host's, prefetched pages are on the requested
// node. The device is on the third node.
#include <cstdlib>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/stage.h"

namespace wherry::test::prefetch_placement_test {

namespace {

constexpr int device_node = 2;
constexpr std::size_t few_words = 3 * page_words;
// A whole block and part of another. Checking a page takes long in an emulated machine.
constexpr std::size_t many_words = 550 * page_words;
constexpr std::size_t looked_at = 25 * page_words;

Stage& stage() {
  static const bool configured = ::setenv("WHERRY_HOST_NODES", "0,1", 1) == 0;
  expect(configured, "setenv");
  static Stage the_stage{"node=2,capacity=16M"};
  return the_stage;
}

void prefetch(const Words& words, CUmemLocation to) {
  WHERRY_TRY(cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(words.data()), words.bytes(), to, 0,
                                nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

// How many of the checked pages are on another node of the processor's pool, or not in it at all.
std::size_t pages_off_node(const Words& words, int processor, int node) {
  const PoolFile pool{processor + 1};
  std::size_t off = 0;
  const std::size_t step = words.size() > looked_at ? looked_at : page_words;
  for (std::size_t i = 0; i < words.size(); i += step)
    if (!pool.holds(&words[i]) || pool.node_of(&words[i]) != node) ++off;
  return off;
}

constexpr CUmemLocation node_of_host(int node) {
  return {CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
}

}  // namespace

TEST_CASE("untouched memory is created on the node that it is prefetched to", "[guest]") {
  stage();
  for (const std::size_t count : {few_words, many_words}) {
    for (const int node : {1, 0}) {
      CAPTURE(count, node);
      const Words words{count};
      prefetch(words, node_of_host(node));
      CHECK(pages_off_node(words, host, node) == 0);
    }
    const Words words{count};
    prefetch(words, location_of(device0));
    CHECK(pages_off_node(words, device0, device_node) == 0);
  }
}

TEST_CASE("memory moves to the node that it is prefetched to, from every place", "[guest]") {
  Stage& s = stage();
  const Words words{many_words};
  s.write_pages(host, words.data(), words.bytes(), 6);
  for (const int node : {1, 0, 1}) {
    CAPTURE(node);
    prefetch(words, location_of(device0));
    CHECK(pages_off_node(words, device0, device_node) == 0);
    prefetch(words, node_of_host(node));
    CHECK(pages_off_node(words, host, node) == 0);
    prefetch(words, node_of_host(1 - node));
    CHECK(pages_off_node(words, host, 1 - node) == 0);
    CHECK(s.read_pages(host, words.data(), words.bytes()) == 6 * many_words / page_words);
  }
}

TEST_CASE("the copy of read-mostly memory moves between nodes of the host", "[guest]") {
  Stage& s = stage();
  const Words words{many_words};
  advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
  s.write_pages(host, words.data(), words.bytes(), 2);
  prefetch(words, location_of(device0));
  for (const int node : {1, 0}) {
    CAPTURE(node);
    prefetch(words, node_of_host(node));
    CHECK(pages_off_node(words, host, node) == 0);
    CHECK(pages_off_node(words, device0, device_node) == 0);
    CHECK(s.residents(words.data()) == (bit_of(host) | bit_of(device0)));
  }
}

}  // namespace wherry::test::prefetch_placement_test
