#include "bench_sweeps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <wherry/wherry.hpp>

#include "base/environment.h"
#include "bench_numa.h"
#include "managed_words.h"
#include "measure/bare_trap.h"
#include "measure/plain_memory.h"
#include "measure/segv_pages.h"
#include "measure/touches.h"
#include "os/files/huge_tmpfs.h"
#include "os/memory/numa.h"

namespace wherry::tool {
namespace {

using namespace bench;
using Pages = PlainMemory::Pages;

constexpr std::size_t page = 4096;
constexpr int runs = 4;

// Sets one device, with space for `bytes` and a little more.
void set_device(std::size_t bytes) {
  ::setenv("WHERRY_DEVICES", fmt::format("capacity={}M", (bytes >> 20) + 64).c_str(), 1);
}

// An empty file on a tmpfs with huge pages; -1 if this process may have none.
int huge_file() {
  return impl::create_on_huge_tmpfs("plain-memory").take_only().release();
}

managed_array<std::uint64_t> managed_words(std::size_t bytes) {
  return managed_array<std::uint64_t>(bytes / sizeof(std::uint64_t));
}

std::byte* bytes_of(managed_array<std::uint64_t>& words) {
  return reinterpret_cast<std::byte*>(words.data());
}

// Two buffers for memcpy.
struct CopyBuffers {
  explicit CopyBuffers(std::size_t bytes) : from(bytes, Pages::huge), to(bytes, Pages::huge) {
    from.fill();
    to.fill();
  }
  double ns(int threads) const {
    return copy_by_threads(to.data(), from.data(), from.size(), threads);
  }
  PlainMemory from, to;
};

// A virtual machine gives free memory back to its host after a few seconds, and is slow to get it
// again. So each timed first touch comes right after another one of the same memory.
template <typename Touch>
double warm_first_touch(PlainMemory& memory, const Touch& touch) {
  touch(memory.data());
  memory.clear();
  const double result = touch(memory.data());
  memory.clear();
  return result;
}

template <typename Touch>
double warm_first_touch_of_managed(std::size_t bytes, const Touch& touch) {
  for (bool warm = false;; warm = true) {
    auto words = managed_words(bytes);
    const double result = touch(bytes_of(words));
    if (warm) return result;
  }
}

int copiers(int cpus) {
  const std::string chosen = impl::environment("WHERRY_COPIERS");
  return chosen.empty() ? std::min(cpus, 16) : std::max(1, std::atoi(chosen.c_str()));
}

}  // namespace

bool several_nodes() {
  const impl::Machine machine = impl::read_machine();
  return std::ranges::count_if(machine.nodes, &impl::NumaNode::has_memory) > 1;
}

void measure_first_touch_sweep(const BenchScale& scale, std::span<Figures> figures) {
  set_device(scale.bytes);
  const auto rate = [&](std::byte* memory) {
    return static_cast<double>(scale.bytes) / timed_touch(memory, scale.bytes, page);
  };
  PlainMemory tmpfs(scale.bytes, Pages::huge, huge_file());
  PlainMemory plain(scale.bytes, Pages::huge);
  const runtime library;
  Samples rates;
  for (int run = 0; run < runs; ++run) {
    rates.value.push_back(warm_first_touch_of_managed(scale.bytes, rate));
    rates.limit.push_back(warm_first_touch(tmpfs, rate));
    rates.peer.push_back(warm_first_touch(plain, rate));
  }
  figures[0] = rates.medians();
}

void measure_threads(const BenchScale& scale, std::span<Figures> figures) {
  set_device(scale.bytes);
  const auto rate = [&](std::byte* memory) {
    return static_cast<double>(scale.bytes) /
           touch_by_threads(memory, scale.bytes, page, scale.cpus);
  };
  PlainMemory tmpfs(scale.bytes, Pages::small, -1);
  PlainMemory plain(scale.bytes, Pages::small);
  SegvPages by_hand(scale.bytes);
  const runtime library;
  const stream device(library.device(0));
  Samples first, take;
  for (int run = 0; run < runs; ++run) {
    first.value.push_back(warm_first_touch_of_managed(scale.bytes, rate));
    first.limit.push_back(warm_first_touch(tmpfs, rate));
    first.peer.push_back(warm_first_touch(plain, rate));
  }
  auto words = managed_words(scale.bytes);
  for (int run = -1; run < runs; ++run) {
    prefetch_and_wait(words.span(), device.device(), device);
    take.value.push_back(rate(bytes_of(words)));
    by_hand.protect();
    take.peer.push_back(rate(by_hand.memory()));
    if (run < 0) take = {};  // the first run warms up
  }
  take.limit = first.limit;
  figures[0] = first.medians();
  figures[1] = take.medians();
}

void measure_sweeps(const BenchScale& scale, std::span<Figures> figures) {
  set_device(scale.bytes);
  const double bytes = static_cast<double>(scale.bytes);
  const CopyBuffers copy(scale.bytes);
  SegvPages by_hand(scale.bytes);
  const runtime library;
  stream device(library.device(0));
  auto words = managed_words(scale.bytes);
  touch_on_host(words.span());
  Samples to_host, to_device;
  for (int run = -1; run < runs; ++run) {
    to_device.value.push_back(bytes / ns_of([&] { touch_on_device(words.span(), device); }));
    to_host.value.push_back(bytes / ns_of([&] { touch_on_host(words.span()); }));
    to_host.limit.push_back(bytes / copy.ns(1));
    to_device.limit.push_back(bytes / copy.ns(scale.cpus));
    by_hand.protect();
    to_host.peer.push_back(bytes / timed_touch(by_hand.memory(), scale.bytes, page));
    by_hand.protect();
    to_device.peer.push_back(bytes /
                             touch_by_threads(by_hand.memory(), scale.bytes, page, scale.cpus));
    if (run < 0) to_host = to_device = {};
  }
  figures[0] = to_host.medians();
  figures[1] = to_device.medians();
}

void measure_prefetches(const BenchScale& scale, std::span<Figures> figures) {
  set_device(scale.bytes);
  const double bytes = static_cast<double>(scale.bytes);
  const CopyBuffers copy(scale.bytes);
  const runtime library;
  const stream in(library.device(0));
  auto words = managed_words(scale.bytes);
  touch_on_host(words.span());
  const int host_node = library.page_state(words.data()).node;
  const int threads = copiers(scale.cpus);
  Samples to_device, to_host;
  for (int run = -1; run < runs; ++run) {
    to_device.value.push_back(bytes /
                              ns_of([&] { prefetch_and_wait(words.span(), in.device(), in); }));
    to_device.limit.push_back(bytes / copy.ns(threads));
    to_host.value.push_back(bytes / ns_of([&] { prefetch_and_wait(words.span(), host, in); }));
    to_host.limit.push_back(bytes / copy.ns(threads));
    if (!several_nodes()) to_device.peer.push_back(bytes / copy.ns(1));
    if (run < 0) to_device = to_host = {};
  }
  prefetch_and_wait(words.span(), in.device(), in);
  const int device_node = library.page_state(words.data()).node;
  to_host.peer = to_device.peer;
  if (device_node != host_node) {
    to_device.peer = {bytes / move_pages_seconds(host_node, device_node, scale.bytes) / 1e9};
    to_host.peer = {bytes / move_pages_seconds(device_node, host_node, scale.bytes) / 1e9};
  }
  figures[0] = to_device.medians();
  figures[1] = to_host.medians();
}

void measure_evictions(const BenchScale& scale, std::span<Figures> figures) {
  const std::size_t half = scale.bytes / 2;
  ::setenv("WHERRY_DEVICES", fmt::format("capacity={}M", half >> 20).c_str(), 1);
  const double bytes = static_cast<double>(half);
  const CopyBuffers copy(half);
  const runtime library;
  const stream in(library.device(0));
  // Each of the two arrays fills the device: before one is prefetched, the other must be evicted.
  managed_array<std::uint64_t> both[] = {managed_words(half), managed_words(half)};
  for (auto& words : both) touch_on_host(words.span());
  prefetch_and_wait(both[1].span(), in.device(), in);
  const int threads = copiers(scale.cpus);
  Samples rates;
  for (int run = -2; run < 2 * runs; ++run) {
    auto& words = both[static_cast<std::size_t>(run + 2) % 2];
    rates.value.push_back(bytes / ns_of([&] { prefetch_and_wait(words.span(), in.device(), in); }));
    // Two copies for each byte that is prefetched: another byte is evicted for it.
    rates.limit.push_back(bytes / 2 / copy.ns(threads));
    rates.peer.push_back(bytes / 2 / copy.ns(1));
    if (run < 0) rates = {};
  }
  if (library.stats().evicted == 0) throw std::runtime_error("nothing was evicted");
  figures[0] = rates.medians();
}

}  // namespace wherry::tool
