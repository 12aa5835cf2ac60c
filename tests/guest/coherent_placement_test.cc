// Coherent devices on a machine with three NUMA nodes. The host is on node 0, device 0 on node 1,
// which has CPUs 2 and 3, and device 1 on node 2, which has no CPUs. Pages are on the node of the
// processor that has them, by Linux's view of the mappings of this process.
#include <sched.h>
#include <unistd.h>

#include <wherry/wherry.h>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/kernel_view.h"
#include "support/session.h"

using namespace wherry::test;

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t block_pages = 512;
constexpr std::size_t device_capacity = std::size_t{24} << 20;
constexpr int host = CU_DEVICE_CPU;
constexpr int patience_ms = 120'000;

struct Page {
  std::uint64_t words[page_bytes / sizeof(std::uint64_t)];
};
using Pages = Managed<Page>;

const Session& session() {
  static const Session started{
      "kind=coherent,node=1,capacity=24M;kind=coherent,node=2,capacity=24M"};
  return started;
}

CUdeviceptr address_of(const Pages& pages) {
  return reinterpret_cast<CUdeviceptr>(pages.data());
}

void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
}

// Runs function() on a thread of this CPU, which counts as the coherent device on whose node it is,
// if there is one.
template <typename Function>
void on_cpu(int cpu, const Function& function) {
  std::thread([&] {
    pin_to(cpu);
    WHERRY_TRY(wherryThreadAttachByCpu());
    function();
  }).join();
}

void touch(const Pages& pages) {
  for (std::size_t i = 0; i < pages.size(); ++i)
    __atomic_fetch_add(&pages[i].words[0], 1, __ATOMIC_RELAXED);
}

// The share of the pages that this process maps from the node.
double share_on(int node, const Pages& pages) {
  std::size_t there = 0;
  for (std::size_t i = 0; i < pages.size(); ++i)
    if (mapped_node(::getpid(), &pages[i]) == node) ++there;
  return static_cast<double>(there) / static_cast<double>(pages.size());
}

// How many of the pages Linux counts on each node, in /proc/self/numa_maps.
std::map<int, std::size_t> numa_maps(const Pages& pages) {
  std::map<int, std::size_t> counts;
  std::ifstream file("/proc/self/numa_maps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uint64_t start = 0;
    words >> std::hex >> start >> std::dec;
    const auto first = reinterpret_cast<std::uint64_t>(pages.data());
    if (start < first || start >= first + pages.bytes()) continue;
    std::size_t unit = 1;
    std::map<int, std::size_t> here;
    for (std::string word; words >> word;) {
      if (word[0] == 'N' && word.find('=') != std::string::npos)
        here[std::stoi(word.substr(1))] += std::stoul(word.substr(word.find('=') + 1));
      if (word.rfind("kernelpagesize_kB=", 0) == 0) unit = std::stoul(word.substr(18)) / 4;
    }
    for (const auto& [node, count] : here) counts[node] += count * unit;
  }
  return counts;
}

void check_all_on(int node, const Pages& pages) {
  CHECK(share_on(node, pages) == 1);
  std::size_t misreported = 0;
  for (std::size_t i = 0; i < pages.size(); ++i)
    if (page_state(&pages[i]).node != node) ++misreported;
  CHECK(misreported == 0);
  CHECK(numa_maps(pages)[node] == pages.size());
}

void prefetch(const Pages& pages, CUmemLocation where) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(pages), pages.bytes(), where, 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

}  // namespace

TEST_CASE("by default the other nodes are coherent devices", "[guest]") {
  session();
  for (int device = 0; device < 2; ++device) CHECK(device_process(device) == ::getpid());
}

TEST_CASE("first touches by threads of a device's node are on that node", "[guest]") {
  session();
  const Pages pages{2 * block_pages};
  on_cpu(2, [&] { touch(pages); });
  check_all_on(1, pages);
  const Pages others{2 * block_pages};
  on_cpu(0, [&] { touch(others); });
  check_all_on(0, others);
}

TEST_CASE("prefetches and preferred locations place pages on the nodes that they name", "[guest]") {
  session();
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

TEST_CASE("pages follow the threads that use them, and a new phase moves them again", "[guest]") {
  session();
  const Pages pages{4 * block_pages};
  touch(pages);
  check_all_on(0, pages);
  for (const int cpu : {2, 0, 3}) {
    const int node = cpu / 2;
    CAPTURE(cpu);
    on_cpu(cpu, [&] {
      const auto begun = std::chrono::steady_clock::now();
      double after_one_second = -1;
      double share = 0;
      for (std::chrono::milliseconds passed{0}; passed.count() < patience_ms;
           passed = std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now() - begun)) {
        for (int i = 0; i < 10; ++i) touch(pages);
        if (after_one_second < 0 && passed.count() >= 1000)
          after_one_second = share_on(node, pages);
        share = share_on(node, pages);
        if (share == 1 && after_one_second >= 0) break;
      }
      WARN("local after one second: " << after_one_second);
      CHECK(share == 1);
    });
    CHECK(numa_maps(pages)[node] == pages.size());
  }
}

TEST_CASE("a page that threads of two nodes use alike stays", "[guest]") {
  session();
  const Pages pages{2 * block_pages};
  touch(pages);
  const std::uint64_t moved = read_stats().migrated_in;
  std::atomic<bool> ends{false};
  std::array<std::thread, 2> users;
  for (std::size_t i = 0; i < users.size(); ++i)
    users[i] = std::thread([&, i] {
      on_cpu(static_cast<int>(2 * i), [&] {
        while (!ends) touch(pages);
      });
    });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  ends = true;
  for (std::thread& user : users) user.join();
  CHECK(read_stats().migrated_in - moved <= 20 * pages.size());
}

TEST_CASE("a device that is smaller than its data evicts to the host's node", "[guest]") {
  session();
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
