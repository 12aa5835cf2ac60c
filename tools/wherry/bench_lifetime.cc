#include "bench_lifetime.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <wherry/wherry.hpp>

#include "apart.h"
#include "managed_words.h"
#include "measure/plain_memory.h"
#include "measure/round_trips.h"
#include "measure/startup.h"
#include "os/files/huge_tmpfs.h"

namespace wherry::tool {
namespace {

using bench::ns_of;
using bench::PlainMemory;

constexpr int starts = 11;
constexpr int teardowns = 3;

// mmap(2) and munmap(2) of as many bytes as measure_startup() allocates.
double map_ms() {
  constexpr std::size_t bytes = std::size_t{100} << 30;
  return ns_of([] {
           void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
           if (place == MAP_FAILED) bench::fail("mmap of 100 GiB");
           ::munmap(place, bytes);
         }) /
         1e6;
}

// Frees resident managed memory. Returns GB/s.
double free_managed_rate(std::size_t bytes, const stream& in) {
  std::optional<managed_array<std::uint64_t>> words(bytes / sizeof(std::uint64_t));
  prefetch_and_wait(words->span(), host, in);
  return static_cast<double>(bytes) / ns_of([&] { words.reset(); });
}

double free_plain_rate(std::optional<PlainMemory>& memory) {
  memory->fill();
  const double bytes = static_cast<double>(memory->size());
  return bytes / ns_of([&] { memory.reset(); });
}

}  // namespace

void measure_startup_times(const BenchScale&, std::span<Figures> figures) {
  Samples start, allocation;
  for (int run = -1; run < starts; ++run) {
    bench::StartupTimes times{};
    const std::string wrong =
        run_apart(times, [](bench::StartupTimes& result) { result = bench::measure_startup(); });
    if (!wrong.empty()) throw std::runtime_error(wrong);
    start.value.push_back(times.init_ms);
    start.limit.push_back(bench::fork_round_trip_us() / 1e3);
    allocation.value.push_back(times.allocation_ms);
    allocation.limit.push_back(map_ms());
    if (run < 0) start = allocation = {};  // the first run fills the page cache
  }
  figures[0] = start.medians();
  figures[1] = allocation.medians();
}

void measure_teardown(const BenchScale& scale, std::span<Figures> figures) {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  const std::size_t bytes = scale.teardown_bytes;
  const runtime library;
  const stream in(library.device(0));
  Samples rates;
  for (int run = 0; run < teardowns; ++run) {
    rates.value.push_back(free_managed_rate(bytes, in));
    std::optional<PlainMemory> memory;
    memory.emplace(bytes, PlainMemory::Pages::huge,
                   impl::create_on_huge_tmpfs("plain-memory").take_only().release());
    rates.limit.push_back(free_plain_rate(memory));
    memory.emplace(bytes, PlainMemory::Pages::huge);
    rates.peer.push_back(free_plain_rate(memory));
  }
  figures[0] = rates.medians();
}

}  // namespace wherry::tool
