#include "bench_coherent.h"

#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>
#include <wherry/wherry.hpp>

#include "apart.h"
#include "bench_report.h"
#include "managed_words.h"
#include "measure/plain_memory.h"
#include "measure/resident.h"

namespace wherry::tool {
namespace {

using bench::ns_of;
using bench::PlainMemory;

constexpr int runs = 5;

// Device 0 is coherent and device 1 isolated. Each has capacity for `bytes`.
void set_devices(std::size_t bytes) {
  const std::size_t capacity = (bytes >> 20) + 64;
  ::setenv("WHERRY_DEVICES",
           fmt::format("kind=coherent,capacity={0}M;capacity={0}M", capacity).c_str(), 1);
}

// The ns of one random update in memory whose size is a power of two.
double update_ns(std::byte* memory, std::size_t bytes) {
  auto* const words = reinterpret_cast<std::uint64_t*>(memory);
  const std::size_t mask = bytes / sizeof(std::uint64_t) - 1;
  constexpr std::size_t updates = 2'000'000;
  std::uint64_t at = 1;
  const double elapsed = ns_of([&] {
    for (std::size_t i = 0; i < updates; ++i) {
      at = at * 6364136223846793005u + 1442695040888963407u;
      words[(at >> 20) & mask] ^= at;
    }
    asm volatile("" : : "r"(words) : "memory");
  });
  return elapsed / updates;
}

double prefetch_ns(Words words, const location& to, const stream& in) {
  return ns_of([&] { prefetch_and_wait(words, to, in); });
}

// A runtime, and managed memory in the pool of its device 0, which must have room for it.
struct ResidentMemory {
  explicit ResidentMemory(std::size_t bytes)
      : in(library.device(0)), words(bytes / sizeof(std::uint64_t)) {
    std::memset(words.data(), 1, bytes);
    prefetch_and_wait(words.span(), in.device(), in);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }

  const runtime library;
  stream in;
  managed_array<std::uint64_t> words;
};

// The ns of a random update in managed memory: the first quartile of many passes, because slower
// ones were disturbed.
double pass_ns(std::size_t bytes, const char* budget) {
  ::setenv("WHERRY_SAMPLING", budget, 1);
  set_devices(bytes);
  // With this policy no pages move: moves cost time that is not in the budget.
  detail::check(wherrySetPolicy("first-touch"), "wherrySetPolicy");
  ResidentMemory memory(bytes);
  update_ns(memory.data(), bytes);
  constexpr int passes = 60;
  std::vector<double> ns;
  // Samples do not become rarer meanwhile, because each shows that the host uses the device's
  // memory.
  for (int pass = 0; pass < passes; ++pass) ns.push_back(update_ns(memory.data(), bytes));
  return quantile(ns, 0.25);
}

}  // namespace

void measure_coherent_resident(const BenchScale& scale, std::span<Figures> figures) {
  const std::size_t bytes = scale.bytes / 2;
  set_devices(bytes);
  ResidentMemory managed(bytes);
  const attached counts(managed.in.device());
  PlainMemory huge(bytes, PlainMemory::Pages::huge), small(bytes, PlainMemory::Pages::small);
  for (std::byte* const plain : {huge.data(), small.data()}) std::memset(plain, 1, bytes);
  std::array<Samples, 3> samples;
  for (int run = -1; run < runs; ++run) {
    for (const auto kind : {&Samples::value, &Samples::limit, &Samples::peer}) {
      std::byte* const memory = kind == &Samples::value   ? managed.data()
                                : kind == &Samples::limit ? huge.data()
                                                          : small.data();
      const bench::ResidentSpeed speed = bench::resident_speed(memory, bytes);
      (samples[0].*kind).push_back(speed.random_ns);
      (samples[1].*kind).push_back(update_ns(memory, bytes));
      (samples[2].*kind).push_back(speed.triad_gb_per_s);
    }
    if (run < 0) samples = {};  // the first run warms up
  }
  for (std::size_t i = 0; i < samples.size(); ++i) figures[i] = samples[i].medians();
}

void measure_coherent_prefetches(const BenchScale& scale, std::span<Figures> figures) {
  const std::size_t bytes = scale.bytes / 2;
  set_devices(bytes);
  const runtime library;
  const stream coherent(library.device(0)), isolated(library.device(1));
  managed_array<std::uint64_t> words(bytes / sizeof(std::uint64_t));
  touch_on_host(words.span());
  const double size = static_cast<double>(bytes);
  std::array<Samples, 4> samples;
  const std::size_t block = std::size_t{2} << 20;
  const Words one = words.span().first(block / sizeof(std::uint64_t));
  for (int run = -1; run < runs; ++run) {
    for (const bool is_coherent : {true, false}) {
      const stream& in = is_coherent ? coherent : isolated;
      const auto kind = is_coherent ? &Samples::value : &Samples::limit;
      (samples[0].*kind).push_back(size / prefetch_ns(words.span(), in.device(), in));
      (samples[1].*kind).push_back(size / prefetch_ns(words.span(), host, in));
      double up = 0, down = 0;
      constexpr int moves = 20;
      for (int move = 0; move < moves; ++move) {
        up += prefetch_ns(one, in.device(), in);
        down += prefetch_ns(one, host, in);
      }
      (samples[2].*kind).push_back(moves * static_cast<double>(block) / up);
      (samples[3].*kind).push_back(moves * static_cast<double>(block) / down);
    }
    if (run < 0) samples = {};
  }
  for (std::size_t i = 0; i < samples.size(); ++i) figures[i] = samples[i].medians();
}

void measure_sampling(const BenchScale& scale, std::span<Figures> figures) {
  const std::size_t bytes = scale.bytes / 8;
  constexpr std::array budgets{"0", "1", "2", "4"};
  std::array<std::vector<double>, budgets.size()> elapsed;
  for (int run = 0; run < runs; ++run)
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      double ns = 0;
      const std::string why =
          run_apart(ns, [&](double& result) { result = pass_ns(bytes, budgets[i]); });
      if (!why.empty()) throw std::runtime_error(why);
      elapsed[i].push_back(ns);
    }
  const double without = bench::median(elapsed[0]);
  for (std::size_t i = 1; i < budgets.size(); ++i) {
    figures[i - 1].value = bench::median(elapsed[i]) / without;
    figures[i - 1].limit = 1 + std::atof(budgets[i]) / 100;
  }
}

}  // namespace wherry::tool
