#include "node_bandwidth.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "os/memory/mapping.h"
#include "os/process/thread.h"

namespace wherry::tool {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
// The fastest pass counts: slower ones were disturbed.
constexpr int passes = 8;

// Much more than the caches hold, if the node has so much memory.
std::size_t bytes_for(const impl::NumaNode& node) {
  const long cache = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  const std::size_t wanted = std::clamp(4 * static_cast<std::size_t>(cache), 64 * mib, 512 * mib);
  return std::min<std::size_t>(wanted, node.free_bytes / 2) / mib * mib;
}

std::uint64_t sum_of(const std::byte* from, std::size_t bytes) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(from);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) sum += words[i];
  return sum;
}

// Bytes a second that threads on all of these CPUs together read at the same time.
double read_speed(const std::vector<int>& cpus, const std::byte* memory, std::size_t bytes) {
  const std::size_t share = bytes / cpus.size() / sizeof(std::uint64_t) * sizeof(std::uint64_t);
  std::uint64_t begun_ns = impl::now_ns(), fastest_ns = ~std::uint64_t{0};
  const auto note_pass = [&]() noexcept {
    const std::uint64_t now = impl::now_ns();
    fastest_ns = std::min(fastest_ns, now - begun_ns);
    begun_ns = now;
  };
  std::barrier pass(static_cast<std::ptrdiff_t>(cpus.size()), note_pass);
  std::vector<std::uint64_t> sums(cpus.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < cpus.size(); ++i)
      threads.emplace_back([&, i] {
        impl::pin_this_thread({&cpus[i], 1});
        for (int n = 0; n < passes; ++n) {
          sums[i] += sum_of(memory + i * share, share);
          pass.arrive_and_wait();
        }
      });
  }
  return static_cast<double>(share * cpus.size()) * 1e9 / static_cast<double>(fastest_ns);
}

}  // namespace

std::variant<impl::NodeSpeeds, std::string> measure_node_speeds(const impl::Machine& machine) {
  impl::NodeSpeeds speeds;
  for (const impl::NumaNode& memory : machine.nodes) {
    if (!memory.has_memory()) continue;
    const std::size_t bytes = bytes_for(memory);
    if (bytes == 0) return fmt::format("node {} has no free memory: free some of it", memory.id);
    const impl::Mapping pages = impl::Mapping::zeroed(bytes);
    const int error =
        impl::set_mapping_policy(reinterpret_cast<std::uintptr_t>(pages.data()), bytes,
                                 {impl::MemoryPolicy::Kind::prefers, {memory.id}});
    if (error != 0)
      return fmt::format("cannot take memory on node {}: {}", memory.id, std::strerror(error));
    std::memset(pages.data(), 1, bytes);
    if (const int node = impl::node_of(pages.data() + bytes - 1); node != memory.id)
      return fmt::format("Linux gave memory on node {} instead of node {}", node, memory.id);
    for (const impl::NumaNode& cpus : machine.nodes)
      if (!cpus.cpus.empty())
        speeds.set(cpus.id, memory.id, read_speed(cpus.cpus, pages.data(), bytes));
  }
  return speeds;
}

}  // namespace wherry::tool
