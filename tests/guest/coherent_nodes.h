// What the tests of coherent devices in the virtual machine share. The host is on node 0, device 0
// on node 1, which has CPUs 2 and 3, and device 1 on node 2, which has no CPUs.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <wherry/wherry.h>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::coherent_nodes {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t block_pages = 512;
inline constexpr std::size_t device_capacity = std::size_t{24} << 20;
inline constexpr int host = CU_DEVICE_CPU;

struct Page {
  std::uint64_t words[page_bytes / sizeof(std::uint64_t)];
};
using Pages = Managed<Page>;

// `sampling`: as WHERRY_SAMPLING.
inline const Session& coherent_session(const char* sampling) {
  static const Session started = [&] {
    ::setenv("WHERRY_SAMPLING", sampling, 1);
    return Session{"kind=coherent,node=1,capacity=24M;kind=coherent,node=2,capacity=24M"};
  }();
  return started;
}

inline CUdeviceptr address_of(const Pages& pages) {
  return reinterpret_cast<CUdeviceptr>(pages.data());
}

inline void pin_to(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
}

// Runs function() on a thread that is pinned to the CPU. The thread counts as the coherent device
// on the CPU's node, if there is one.
template <typename Function>
void on_cpu(int cpu, const Function& function) {
  std::thread([&] {
    pin_to(cpu);
    WHERRY_TRY(wherryThreadAttachByCpu());
    function();
  }).join();
}

inline void touch(const Pages& pages) {
  for (std::size_t i = 0; i < pages.size(); ++i)
    __atomic_fetch_add(&pages[i].words[0], 1, __ATOMIC_RELAXED);
}

// The share of the pages that this process maps from the node.
inline double share_on(int node, const Pages& pages) {
  std::size_t there = 0;
  for (std::size_t i = 0; i < pages.size(); ++i)
    if (mapped_node(::getpid(), &pages[i]) == node) ++there;
  return static_cast<double>(there) / static_cast<double>(pages.size());
}

// The node from which this process maps the page, as soon as it maps it: a page that is being
// merged into a huge page is not mapped.
inline std::optional<int> node_once_mapped(const void* page) {
  std::optional<int> node;
  comes_true([&] { return (node = mapped_node(::getpid(), page)).has_value(); });
  return node;
}

// How many of the pages Linux counts on each node now, in /proc/self/numa_maps.
inline std::map<int, std::size_t> numa_maps_now(const Pages& pages) {
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

// Returns numa_maps_now() as soon as it counts all pages: while pages are merged into a huge page,
// they are not mapped.
inline std::map<int, std::size_t> numa_maps(const Pages& pages) {
  std::map<int, std::size_t> counts;
  CHECK(comes_true([&] {
    counts = numa_maps_now(pages);
    std::size_t sum = 0;
    for (const auto& [node, count] : counts) sum += count;
    return sum == pages.size();
  }));
  return counts;
}

inline void check_all_on(int node, const Pages& pages) {
  std::size_t elsewhere = 0;
  std::size_t misreported = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (node_once_mapped(&pages[i]) != node) ++elsewhere;
    if (page_state(&pages[i]).node != node) ++misreported;
  }
  CHECK(elsewhere == 0);
  CHECK(misreported == 0);
  CHECK(numa_maps(pages)[node] == pages.size());
}

inline void prefetch(const Pages& pages, CUmemLocation where) {
  WHERRY_TRY(cuMemPrefetchAsync(address_of(pages), pages.bytes(), where, 0, nullptr));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

}  // namespace wherry::test::coherent_nodes
