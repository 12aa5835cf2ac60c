#include "workloads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "access_trace.h"
#include "base/clock.h"
#include "csr.h"
#include "managed_solve.h"
#include "triplets.h"

namespace wherry::tool {
namespace {

constexpr std::size_t page_words = 4096 / sizeof(std::uint64_t);
using Words = managed_array<std::uint64_t>;

template <typename Work>
Interval interval_of(const Work& work) {
  Interval interval;
  interval.begin_ns = impl::now_ns();
  work();
  interval.end_ns = impl::now_ns();
  return interval;
}

void expect(bool right, const char* what) {
  if (!right)
    throw std::runtime_error(std::string("the workload computed a wrong result: ") + what);
}

std::uint64_t sum_of(const Words& words) {
  return std::accumulate(words.begin(), words.end(), std::uint64_t{0});
}

// About a microsecond of arithmetic that compilers cannot remove.
std::uint64_t think(std::uint64_t value) {
  for (int i = 0; i < 500; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

// ---- two processors that want the same page

// Host and device write one word by turns, each as soon as it can.
Interval ping_pong(const WorkloadSetting& setting) {
  constexpr std::uint64_t turns = 2000;
  stream device(setting.library.device(0));
  Words words(page_words);
  words[0] = 0;
  std::uint64_t* const word = words.data();
  const auto play = [word](std::uint64_t parity) {
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      while (__atomic_load_n(word, __ATOMIC_ACQUIRE) % 2 != parity) ::sched_yield();
      __atomic_store_n(word, 2 * turn + parity + 1, __ATOMIC_RELEASE);
    }
  };
  const Interval interval = interval_of([&] {
    device.parallel_for(1, [play](std::size_t) { play(1); });
    play(0);
    device.synchronize();
  });
  expect(words[0] == 2 * turns, "the last turn");
  return interval;
}

// Host and device each write their own word, both in one page.
Interval false_sharing(const WorkloadSetting& setting) {
  constexpr std::uint64_t rounds = 20'000;
  stream device(setting.library.device(0));
  Words words(page_words);
  words[0] = words[64] = 0;
  const auto work = [](std::uint64_t* word) {
    std::atomic_ref own(*word);
    for (std::uint64_t i = 0; i < rounds; ++i)
      own.store(own.load(std::memory_order_relaxed) + 1 + (think(i) == 1),
                std::memory_order_relaxed);
  };
  const Interval interval = interval_of([&, first = words.data(), second = words.data() + 64] {
    device.parallel_for(1, [work, second](std::size_t) { work(second); });
    work(first);
    device.synchronize();
  });
  expect(words[0] == rounds && words[64] == rounds, "a counter");
  return interval;
}

// ---- data that is passed on

Interval producer_consumer(const WorkloadSetting& setting) {
  constexpr std::size_t count = 64 * page_words;
  constexpr std::uint64_t rounds = 60;
  stream device(setting.library.device(0));
  Words words(count);
  Words sums(page_words);
  std::uint64_t* const to = sums.data();
  sums[0] = 0;
  const Interval interval = interval_of([&] {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::ranges::fill(words.span(), round);
      device.parallel_for(1, [from = words.data(), to](std::size_t) {
        *to += std::accumulate(from, from + count, std::uint64_t{0});
      });
      device.synchronize();
    }
  });
  expect(sums[0] == count * rounds * (rounds - 1) / 2, "a sum");
  return interval;
}

// A table that the host has written, and that all processors read at random places.
Interval read_shared(const WorkloadSetting& setting) {
  constexpr std::size_t count = 512 * page_words;
  constexpr int lookups = 400'000;
  stream streams[] = {stream(setting.library.device(0)), stream(setting.library.device(1))};
  Words table(count);
  Words sums(2 * page_words);
  std::iota(table.begin(), table.end(), std::uint64_t{0});
  const auto look_up = [from = table.data()](std::uint64_t seed) {
    std::uint64_t sum = 0;
    for (int i = 0; i < lookups; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      sum += from[(seed >> 33) % count];
    }
    return sum;
  };
  std::uint64_t own = 0;
  const Interval interval = interval_of([&] {
    for (std::size_t i = 0; i < std::size(streams); ++i)
      streams[i].parallel_for(1, [look_up, to = sums.data() + i * page_words,
                                  seed = setting.seed](std::size_t) { *to = look_up(seed); });
    own = look_up(setting.seed);
    for (stream& each : streams) each.synchronize();
  });
  expect(sums[0] == own && sums[page_words] == own, "a look-up");
  return interval;
}

// ---- more memory than a device holds

std::size_t capacity_words(const WorkloadSetting& setting) {
  return setting.library.device(0).total_memory() / sizeof(std::uint64_t);
}

// Sweeps over the memory on device 0. Each sweep adds 1 to the first word of every 64 bytes.
Interval sweep(const WorkloadSetting& setting, double capacities, std::uint64_t rounds) {
  const auto count =
      static_cast<std::size_t>(static_cast<double>(capacity_words(setting)) * capacities);
  stream device(setting.library.device(0));
  Words words(count);
  std::ranges::fill(words.span(), std::uint64_t{0});
  const Interval interval = interval_of([&] {
    for (std::uint64_t round = 0; round < rounds; ++round)
      device.parallel_for(1, [to = words.data(), count](std::size_t) {
        for (std::size_t i = 0; i < count; i += 8) ++to[i];
      });
    device.synchronize();
  });
  expect(sum_of(words) == rounds * (count / 8), "a sweep");
  return interval;
}
Interval streaming(const WorkloadSetting& setting) {
  return sweep(setting, 2, 1);
}
Interval cyclic(const WorkloadSetting& setting) {
  return sweep(setting, 1.25, 4);
}

// Accesses pages of twice the capacity, some of them much more often than others.
Interval zipf(const WorkloadSetting& setting) {
  constexpr std::size_t accesses = 100'000;
  const std::size_t pages = 2 * capacity_words(setting) / page_words;
  stream device(setting.library.device(0));
  Words words(pages * page_words);
  std::ranges::fill(words.span(), std::uint64_t{0});
  const AccessTrace trace =
      zipf_trace(static_cast<std::uint32_t>(pages), accesses, 1.0, setting.seed);
  managed_array<std::uint32_t> order(accesses);
  std::ranges::copy(trace, order.begin());
  const Interval interval = interval_of([&] {
    device.parallel_for(1, [to = words.data(), from = order.data()](std::size_t) {
      for (std::size_t i = 0; i < accesses; ++i) {
        std::uint64_t* const page = to + from[i] * page_words;
        for (std::size_t word = 0; word < page_words; word += 8) ++page[word];
      }
    });
    device.synchronize();
  });
  expect(sum_of(words) == accesses * (page_words / 8), "a page");
  return interval;
}

// ---- numerical codes

// Smooths a line of which each of two devices owns half. In each step each device reads one page of
// the other half.
Interval stencil(const WorkloadSetting& setting) {
  constexpr std::size_t count = 256 * page_words;
  constexpr int steps = 100;
  stream streams[] = {stream(setting.library.device(0)), stream(setting.library.device(1))};
  managed_array<double> lines[] = {managed_array<double>(count), managed_array<double>(count)};
  for (auto& line : lines) std::ranges::fill(line.span(), 0.0);
  lines[0][0] = lines[1][0] = 1.0;
  const Interval interval = interval_of([&] {
    for (int step = 0; step < steps; ++step) {
      const double* const from = lines[step % 2].data();
      double* const to = lines[(step + 1) % 2].data();
      for (std::size_t half = 0; half < 2; ++half)
        streams[half].parallel_for(1, [from, to, half](std::size_t) {
          const std::size_t begin = std::max<std::size_t>(half * count / 2, 1);
          const std::size_t end = std::min((half + 1) * count / 2, count - 1);
          for (std::size_t i = begin; i < end; ++i)
            to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
        });
      for (stream& each : streams) each.synchronize();
    }
  });
  expect(lines[0][1] > 0.8 && lines[0][1] < 1 && lines[0][count / 2] == 0, "the line");
  return interval;
}

Interval conjugate_gradients(const WorkloadSetting& setting) {
  const CsrMatrix matrix = assemble(poisson_2d(128));
  std::vector<double> inverse(matrix.view().rows);
  invert_diagonal(matrix.view(), inverse);
  PhaseRecorder recorder(setting.library);
  SolveOptions options;
  options.devices = 2;
  options.tolerance = 1e-8;
  options.iterations_max = 1000;
  const Interval interval = interval_of([&] {
    const ManagedSolution solution =
        solve_managed(matrix.view(), inverse, options, setting.library, recorder);
    expect(solution.result.status == CgStatus::converged, "the solution");
  });
  return interval;
}

constexpr Workload all[] = {
    {"ping-pong", "host and device take turns at one word", 1, ping_pong},
    {"false-sharing", "host and device work at words of their own in one page", 1, false_sharing},
    {"producer-consumer", "the host writes 256 KiB, the device reads them, again and again", 1,
     producer_consumer},
    {"read-shared", "host and two devices look things up in 2 MiB", 2, read_shared},
    {"streaming", "the device goes through twice its capacity once", 1, streaming},
    {"cyclic", "the device sweeps over 1.25 times its capacity", 1, cyclic},
    {"zipf", "the device works on pages of twice its capacity, some often", 1, zipf},
    {"stencil", "two devices smooth halves of 1 MiB, and read each other's border", 2, stencil},
    {"cg", "conjugate gradients, 128 x 128 grid, two devices", 2, conjugate_gradients},
};

}  // namespace

std::span<const Workload> workloads() {
  return all;
}

}  // namespace wherry::tool
