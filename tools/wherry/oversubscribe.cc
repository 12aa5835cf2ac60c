#include "oversubscribe.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>
#include <wherry/wherry.hpp>

#include "access_trace.h"
#include "bench_report.h"
#include "complain.h"
#include "progress.h"
#include "reference_replacement.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t block_bytes = std::size_t{2} << 20;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t block_words = block_bytes / sizeof(std::uint64_t);
// The largest device that can be measured: the benchmark allocates and writes four times as much.
constexpr std::size_t capacity_max = std::size_t{4} << 30;
constexpr double zipf_exponent = 1.0;
constexpr int prefetches = 15;

struct Load {
  std::string order;
  double size;  // in multiples of the capacity
  AccessTrace trace;
  std::size_t first;  // earlier accesses warm up
};

struct Result {
  double hit_rate = 0;  // 1 - pages migrated in / pages accessed
  double lru = 0;
  double random = 0;
  double optimum = 0;
  double bytes_per_second = 0;
  std::uint64_t evictions = 0;  // in blocks
};

// The accesses of one launch. Launch arguments are passed by value.
struct Batch {
  static constexpr std::size_t most = 1000;

  std::uint64_t* words;
  std::size_t count;
  std::array<std::uint32_t, most> blocks;
};
static_assert(sizeof(Batch) <= WHERRY_MAX_ARGS_SIZE);

// Adds up the words of each block and stores the sum in the block, so that the block is read and
// becomes dirty.
void access_blocks(const void* args, std::size_t, std::size_t) {
  const Batch& batch = *static_cast<const Batch*>(args);
  for (std::size_t i = 0; i < batch.count; ++i) {
    std::uint64_t* const block = batch.words + batch.blocks[i] * block_words;
    std::uint64_t sum = 0;
    for (std::size_t word = 0; word < block_words; ++word) sum += block[word];
    block[0] = sum;
  }
}

class Bench {
 public:
  Bench(const runtime& library, const OversubscribeOptions& options)
      : library_(library), stream_(library.device(0)), options_(options) {}

  std::size_t capacity_blocks() const { return stream_.device().total_memory() / block_bytes; }

  // Bytes per second of prefetches of half of the device's capacity: the baseline for the bandwidth
  // of the accesses.
  double prefetch_bandwidth() {
    auto memory = host_written(std::max<std::size_t>(capacity_blocks() / 2, 1));
    std::vector<double> seconds;
    for (int i = 0; i < prefetches; ++i) {
      seconds.push_back(seconds_of([&] {
        prefetch(memory.span(), stream_.device(), stream_);
        stream_.synchronize();
      }));
      prefetch(memory.span(), host, stream_);
      stream_.synchronize();
    }
    return static_cast<double>(memory.span().size_bytes()) / quantile(seconds, 0.5);
  }

  std::vector<Load> loads() const {
    const std::size_t capacity = capacity_blocks();
    std::vector<Load> loads;
    for (const double size : {1.25, 2.0, 4.0}) {
      const auto blocks = static_cast<std::uint32_t>(static_cast<double>(capacity) * size);
      const auto rounds = static_cast<std::size_t>(options_.rounds);
      const std::size_t warm = 2 * blocks;
      const std::size_t all = warm + rounds * blocks;
      loads.push_back({"sweep", size, sweep_trace(blocks, 2 + rounds), warm});
      loads.push_back({"random", size, random_trace(blocks, all, options_.seed), warm});
      loads.push_back({"zipf", size, zipf_trace(blocks, all, zipf_exponent, options_.seed), warm});
    }
    return loads;
  }

  Result measure(const Load& load) {
    const std::size_t blocks = 1 + *std::ranges::max_element(load.trace);
    auto memory = host_written(blocks);
    const std::span<const std::uint32_t> trace(load.trace);
    play(memory.data(), trace.first(load.first));
    const std::uint64_t brought_before = pages_brought();
    take_evictions();
    const auto measured = trace.subspan(load.first);
    const double seconds = play(memory.data(), measured);
    const auto accessed = static_cast<double>(measured.size());
    const double brought =
        static_cast<double>(pages_brought() - brought_before) / (block_bytes / page_bytes);

    Result result;
    result.hit_rate = 1 - brought / accessed;
    const auto rate = [&](std::size_t hits) { return static_cast<double>(hits) / accessed; };
    result.lru = rate(hits_of_lru(trace, capacity_blocks(), load.first));
    result.random = rate(hits_of_random(trace, capacity_blocks(), load.first, options_.seed));
    result.optimum = rate(hits_of_optimum(trace, capacity_blocks(), load.first));
    result.bytes_per_second = accessed * block_bytes / seconds;
    result.evictions = take_evictions();
    return result;
  }

 private:
  static managed_array<std::uint64_t> host_written(std::size_t blocks) {
    managed_array<std::uint64_t> words(blocks * block_words);
    std::ranges::fill(words.span(), std::uint64_t{1});
    return words;
  }

  // Returns the duration in seconds.
  double play(std::uint64_t* words, std::span<const std::uint32_t> trace) {
    return seconds_of([&] {
      while (!trace.empty()) {
        Batch batch{words, std::min(trace.size(), Batch::most), {}};
        std::ranges::copy(trace.first(batch.count), batch.blocks.begin());
        detail::check(wherryLaunchKernel(stream_.handle(), access_blocks, &batch, sizeof batch, 1),
                      "wherryLaunchKernel");
        stream_.synchronize();
        trace = trace.subspan(batch.count);
      }
    });
  }

  std::uint64_t pages_brought() const {
    const wherryProcessorStats& device = library_.stats().processor[1];
    return device.migrated_in + device.populated + device.duplicated;
  }

  // Returns the number of evictions since the last call.
  std::uint64_t take_evictions() {
    std::vector<wherryEviction> events(1024);
    std::uint64_t sum = 0, dropped = 0;
    for (std::size_t count = events.size(); count == events.size(); sum += count)
      detail::check(wherryGetEvictions(events.data(), &count, &dropped), "wherryGetEvictions");
    sum += dropped - dropped_;
    dropped_ = dropped;
    return sum;
  }

  const runtime& library_;
  stream stream_;
  const OversubscribeOptions& options_;
  std::uint64_t dropped_ = 0;
};

std::string table_head() {
  return fmt::format("{:<8}{:>6}{:>10}{:>8}{:>8}{:>9}{:>11}{:>13}{:>13}\n", "order", "size",
                     "hit rate", "LRU", "random", "optimum", "evictions", "MiB/s", "of prefetch");
}

std::string table_row(const Load& load, const Result& result, double prefetch) {
  return fmt::format("{:<8}{:>5}x{:>10.3f}{:>8.3f}{:>8.3f}{:>9.3f}{:>11}{:>13.0f}{:>13.2f}\n",
                     load.order, load.size, result.hit_rate, result.lru, result.random,
                     result.optimum, result.evictions, result.bytes_per_second / (1 << 20),
                     result.bytes_per_second / prefetch);
}

// The plot without rows.
Plot empty_plot(std::size_t capacity, int rounds) {
  return {"A device works on more memory than it holds",
          fmt::format("{}; capacity {} MiB, {} rounds", describe_machine(), capacity >> 20, rounds),
          {{"hit rate (accesses to blocks that are there)",
            PlotAxis::linear,
            {"this device", "LRU", "random replacement", "optimum"},
            {}},
           {"bandwidth (MiB/s)", PlotAxis::linear, {"this device", "a prefetch"}, {}}}};
}

void add_to_plot(Plot& plot, const Load& load, const Result& result, double prefetch) {
  const std::string label = fmt::format("{}, {}x the capacity", load.order, load.size);
  plot.panels[0].rows.push_back(
      {label, {result.hit_rate, result.lru, result.random, result.optimum}});
  plot.panels[1].rows.push_back(
      {label, {result.bytes_per_second / (1 << 20), prefetch / (1 << 20)}});
}

Json json_row(const Load& load, const Result& result, double prefetch) {
  return {{"order", load.order},
          {"size_in_capacities", load.size},
          {"accesses", load.trace.size() - load.first},
          {"hit_rate", result.hit_rate},
          {"hit_rate_lru", result.lru},
          {"hit_rate_random", result.random},
          {"hit_rate_optimum", result.optimum},
          {"evictions", result.evictions},
          {"bytes_per_second", result.bytes_per_second},
          {"of_prefetch", result.bytes_per_second / prefetch}};
}

}  // namespace

int run_oversubscribe(const OversubscribeOptions& options) {
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=1", /*overwrite=*/0);
  const runtime library;
  Bench bench(library, options);
  const std::size_t capacity = bench.capacity_blocks() * block_bytes;
  if (capacity > capacity_max) {
    return complain(
        fmt::format("device 0 holds {} GiB, and four times as much would be filled: give it at "
                    "most {} GiB with WHERRY_DEVICES",
                    capacity >> 30, capacity_max >> 30));
  }
  Progress progress;
  progress.show("prefetches");
  const double prefetch = bench.prefetch_bandwidth();
  std::string text =
      fmt::format("device 0 holds {} MiB; a prefetch to it brings {:.0f} MiB/s\n\n{}",
                  capacity >> 20, prefetch / (1 << 20), table_head());
  Json rows = Json::array();
  Plot plot = empty_plot(capacity, options.rounds);
  const std::vector<Load> loads = bench.loads();
  for (const Load& load : loads) {
    progress.enter_step(rows.size() + 1, loads.size());
    progress.show(fmt::format("{} of {}x the capacity", load.order, load.size));
    const Result result = bench.measure(load);
    text += table_row(load, result, prefetch);
    rows.push_back(json_row(load, result, prefetch));
    add_to_plot(plot, load, result, prefetch);
  }
  const Json report{{"capacity_bytes", capacity},
                    {"rounds", options.rounds},
                    {"seed", options.seed},
                    {"prefetch_bytes_per_second", prefetch},
                    {"rows", rows}};
  const int printed = print_out(options.json ? report.dump(2) + "\n" : text);
  return save_plot(plot, options.svg) ? printed : exit_failed;
}

}  // namespace wherry::tool
