#include "bench_resident.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <wherry/wherry.hpp>

#include "managed_words.h"
#include "measure/plain_memory.h"
#include "measure/resident.h"

namespace wherry::tool {
namespace {

using bench::PlainMemory;
using bench::ResidentSpeed;

constexpr int runs = 5;

// The kinds of memory: plain memory of the measuring process, then managed memory.
enum Kind : std::size_t {
  plain_huge,
  plain_small,
  by_faults,
  by_prefetch,
  kinds,
};
using Speeds = std::array<ResidentSpeed, kinds>;

// Measures the processor on which it is called, the host or a device. The plain memory is that of
// the calling process. Returns medians. The kinds of memory take turns, so that other load affects
// all of them.
Speeds measure_speeds(std::byte* faulted, std::byte* prefetched, std::size_t bytes) {
  PlainMemory huge(bytes, PlainMemory::Pages::huge), small(bytes, PlainMemory::Pages::small);
  const std::array<std::byte*, kinds> memory{huge.data(), small.data(), faulted, prefetched};
  // No byte is 0: sums of denormal numbers would take longer.
  for (std::byte* const plain : {huge.data(), small.data()}) std::memset(plain, 1, bytes);
  std::array<std::vector<double>, kinds> random, triad;
  for (int run = -1; run < runs; ++run)
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const ResidentSpeed speed = bench::resident_speed(memory[kind], bytes);
      if (run < 0) continue;  // the first run warms up
      random[kind].push_back(speed.random_ns);
      triad[kind].push_back(speed.triad_gb_per_s);
    }
  Speeds speeds;
  for (std::size_t kind = 0; kind < kinds; ++kind)
    speeds[kind] = {bench::median(random[kind]), bench::median(triad[kind])};
  return speeds;
}

// The answers to the questions about one processor.
void fill(std::span<Figures> figures, const Speeds& speeds) {
  const auto of = [&](Kind kind, double ResidentSpeed::*speed) {
    return Figures{speeds[kind].*speed, speeds[plain_huge].*speed, speeds[plain_small].*speed};
  };
  figures[0] = of(by_prefetch, &ResidentSpeed::random_ns);
  figures[1] = of(by_prefetch, &ResidentSpeed::triad_gb_per_s);
  figures[2] = of(by_faults, &ResidentSpeed::random_ns);
  figures[3] = of(by_faults, &ResidentSpeed::triad_gb_per_s);
}

}  // namespace

void measure_resident(const BenchScale& scale, std::span<Figures> figures) {
  const std::size_t bytes = scale.bytes / 2;
  ::setenv("WHERRY_DEVICES",
           fmt::format("capacity={}M,workers=1", (scale.bytes >> 20) + 64).c_str(), 1);
  const runtime library;
  stream device(library.device(0));
  managed_array<std::uint64_t> faulted(bytes / sizeof(std::uint64_t));
  managed_array<std::uint64_t> prefetched(bytes / sizeof(std::uint64_t));
  auto* const first = reinterpret_cast<std::byte*>(faulted.data());
  auto* const second = reinterpret_cast<std::byte*>(prefetched.data());
  std::memset(first, 1, bytes);
  std::memset(second, 1, bytes);
  prefetch_and_wait(prefetched.span(), device.device(), device);
  prefetch_and_wait(prefetched.span(), host, device);
  fill(figures.first(4), measure_speeds(first, second, bytes));

  prefetch_and_wait(prefetched.span(), device.device(), device);
  touch_on_device(faulted.span(), device);
  managed_array<Speeds> on_device(1);
  device.parallel_for(1, [first, second, bytes, to = on_device.data()](std::size_t) {
    *to = measure_speeds(first, second, bytes);
  });
  device.synchronize();
  fill(figures.subspan(4), on_device[0]);
}

}  // namespace wherry::tool
