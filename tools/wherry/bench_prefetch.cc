#include "bench_prefetch.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>
#include <wherry/wherry.hpp>

#include "bench_report.h"
#include "complain.h"
#include "managed_words.h"
#include "progress.h"

namespace wherry::tool {
namespace {

constexpr std::size_t region_words = 16 * page_words;
constexpr int runs = 5;
constexpr std::size_t chunks = 8;
constexpr std::size_t latency_samples = 2000;
constexpr int latency_rounds_max = 20;

class PrefetchBench {
 public:
  PrefetchBench(const PrefetchBenchOptions& options, const device& on)
      : options_(options),
        device_(on),
        copies_(on),
        kernels_(on),
        data_(options.bytes / sizeof(std::uint64_t)) {}

  BenchReport run() {
    BenchReport report;
    report.title = fmt::format("prefetch of {} MiB between the host and device {}",
                               options_.bytes >> 20, options_.device);
    report.machine = describe_machine();
    rows_ = &report.rows;
    Progress progress;
    const auto measure = [&](const char* what, void (PrefetchBench::*step)()) {
      progress.show(what);
      (this->*step)();
    };
    measure("memcpy", &PrefetchBench::measure_memcpy);
    measure("prefetches", &PrefetchBench::measure_prefetch);
    measure("faults", &PrefetchBench::measure_touch);
    measure("prefetches of untouched memory", &PrefetchBench::measure_untouched);
    measure("prefetches beside kernels", &PrefetchBench::measure_overlap);
    measure("faults beside prefetches", &PrefetchBench::measure_latency);
    return report;
  }

 private:
  void move(Words words, const location& where) {
    calls_.push_back(seconds_of([&] { prefetch(words, where, copies_); }) * 1e6);
    copies_.synchronize();
  }

  void add_move(const char* name, const char* key, double seconds, double to, const char* against) {
    rows_->push_back(
        {name, key, seconds, options_.bytes, 0, 0, to == 0 ? 0 : to / seconds, against});
  }

  void measure_memcpy() {
    const std::unique_ptr<std::byte[]> from(new std::byte[options_.bytes]);
    const std::unique_ptr<std::byte[]> to(new std::byte[options_.bytes]);
    std::memset(from.get(), 1, options_.bytes);
    std::memset(to.get(), 2, options_.bytes);
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i)
      seconds.push_back(seconds_of([&] { std::memcpy(to.get(), from.get(), options_.bytes); }));
    memcpy_ = quantile(seconds, 0.5);
    add_move("memcpy of resident memory, one thread", "memcpy", memcpy_, 0, "");
  }

  void measure_prefetch() {
    touch_on_host(data_.span());
    move(data_.span(), device_);
    move(data_.span(), host);
    std::vector<double> there, back;
    for (int i = 0; i < runs; ++i) {
      there.push_back(seconds_of([&] { move(data_.span(), device_); }));
      back.push_back(seconds_of([&] { move(data_.span(), host); }));
    }
    to_device_ = quantile(there, 0.5);
    to_host_ = quantile(back, 0.5);
    add_move("prefetch to the device", "prefetch_to_device", to_device_, memcpy_, "memcpy");
    add_move("prefetch to the host", "prefetch_to_host", to_host_, memcpy_, "memcpy");
    rows_->push_back(
        {"the call alone", "call", 0, 0, quantile(calls_, 0.5), quantile(calls_, 0.99), 0, ""});
  }

  void measure_touch() {
    std::vector<double> there, back;
    for (int i = 0; i < runs; ++i) {
      there.push_back(seconds_of([&] { touch_on_device(data_.span(), kernels_); }));
      back.push_back(seconds_of([&] { touch_on_host(data_.span()); }));
    }
    add_move("touch by the device", "touch_by_device", quantile(there, 0.5), to_device_,
             "prefetch to the device");
    add_move("touch by the host", "touch_by_host", quantile(back, 0.5), to_host_,
             "prefetch to the host");
  }

  void measure_untouched() {
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i) {
      managed_array<std::uint64_t> fresh(data_.size());
      seconds.push_back(seconds_of([&] { move(fresh.span(), device_); }));
    }
    add_move("prefetch of untouched memory to the device", "prefetch_untouched",
             quantile(seconds, 0.5), memcpy_, "memcpy");
  }

  Words chunk(std::size_t number) {
    const std::size_t words = data_.size() / chunks / page_words * page_words;
    return data_.span().subspan(number * words, words);
  }
  // One worker reads each page of the chunk, and computes with its contents.
  void compute(Words words, std::size_t rounds) {
    kernels_.parallel_for(1, [words, rounds](std::size_t) {
      for (std::size_t i = 0; i < words.size(); i += page_words) {
        std::uint64_t value = words[i] | 1;
        for (std::size_t round = 0; round < rounds; ++round)
          value = value * 6364136223846793005u + 1442695040888963407u;
        words[i] = value;
      }
    });
  }
  double time_compute(std::size_t rounds) {
    return seconds_of([&] {
      for (std::size_t i = 0; i < chunks; ++i) compute(chunk(i), rounds);
      kernels_.synchronize();
    });
  }
  double time_copy() {
    return seconds_of([&] {
      for (std::size_t i = 0; i < chunks; ++i) move(chunk(i), device_);
    });
  }

  // The number of compute rounds that take as long as the copy: then the two are hardest to
  // overlap.
  std::size_t balance() {
    double copy = 0;
    for (int i = 0; i < runs; ++i) {
      move(data_.span(), host);
      const double seconds = time_copy();
      copy = i == 0 ? seconds : std::min(copy, seconds);
    }
    std::size_t rounds = 64;
    double compute = time_compute(rounds);
    while (compute < copy && rounds < (std::size_t{1} << 20)) {
      rounds *= 2;
      compute = time_compute(rounds);
    }
    return std::max<std::size_t>(
        1, static_cast<std::size_t>(static_cast<double>(rounds) * std::min(1.0, copy / compute)));
  }

  void measure_overlap() {
    const std::size_t rounds = balance();

    std::vector<double> computes, copies, both;
    for (int i = 0; i < runs; ++i) {
      move(data_.span(), host);
      copies.push_back(time_copy());
      computes.push_back(time_compute(rounds));
      move(data_.span(), host);
      move(chunk(0), device_);
      both.push_back(seconds_of([&] {
        for (std::size_t k = 0; k < chunks; ++k) {
          if (k + 1 < chunks) prefetch(chunk(k + 1), device_, copies_);
          compute(chunk(k), rounds);
          kernels_.synchronize();
          copies_.synchronize();
        }
      }));
    }
    const double compute_alone = quantile(computes, 0.5);
    const double copy_alone = quantile(copies, 0.5);
    const double overlapped = quantile(both, 0.5);
    rows_->push_back({"compute on chunks that are there, one worker", "compute_alone",
                      compute_alone, 0, 0, 0, 0, ""});
    rows_->push_back({"prefetch of the chunks, one by one", "copy_alone", copy_alone,
                      options_.bytes, 0, 0, 0, ""});
    rows_->push_back({"compute while the next chunk is prefetched", "overlapped", overlapped, 0, 0,
                      0, overlapped / std::max(compute_alone, copy_alone),
                      "the longer of the two"});
  }

  // Accesses a new region of `fresh` each time, which no other thread uses, while goes_on() is
  // true.
  template <typename GoesOn>
  void sample_faults(Words fresh, std::vector<double>& times, const GoesOn& goes_on) {
    for (std::size_t at = 0; at < fresh.size() && goes_on(); at += region_words)
      times.push_back(seconds_of([&] { fresh[at] = 1; }) * 1e6);
  }

  void measure_latency() {
    std::vector<double> idle, busy;
    {
      managed_array<std::uint64_t> fresh(latency_samples * region_words);
      sample_faults(fresh.span(), idle, [] { return true; });
    }
    // Prefetches as much as the device can hold beside the data, at most four times the data, so
    // that the prefetch lasts longer than the faults that are timed during it.
    const std::uint64_t most = std::min<std::uint64_t>(4 * options_.bytes, device_.free_memory());
    managed_array<std::uint64_t> large(most / region_words / sizeof(std::uint64_t) * region_words);
    touch_on_host(large.span());
    for (int i = 0; i < latency_rounds_max && busy.size() < latency_samples; ++i) {
      managed_array<std::uint64_t> fresh(latency_samples * region_words);
      move(large.span(), host);
      prefetch(large.span(), device_, copies_);
      sample_faults(fresh.span(), busy,
                    [&] { return cuStreamQuery(copies_.handle()) == CUDA_ERROR_NOT_READY; });
      copies_.synchronize();
    }
    const double idle_p50 = quantile(idle, 0.5);
    rows_->push_back({"first touch of a page by the host, idle", "fault_idle", 0, 0, idle_p50,
                      quantile(idle, 0.99), 0, ""});
    if (busy.empty()) return;
    const double busy_p50 = quantile(busy, 0.5);
    rows_->push_back({fmt::format("... while {} MiB are prefetched", large.size() >> 17),
                      "fault_while_prefetching", 0, 0, busy_p50, quantile(busy, 0.99),
                      busy_p50 / idle_p50, "idle (p50)"});
  }

  const PrefetchBenchOptions options_;
  const device device_;
  stream copies_;
  stream kernels_;
  managed_array<std::uint64_t> data_;
  std::vector<BenchRow>* rows_ = nullptr;
  std::vector<double> calls_;  // duration of prefetch calls, in microseconds
  double memcpy_ = 0;
  double to_device_ = 0;
  double to_host_ = 0;
};

}  // namespace

int run_bench_prefetch(const PrefetchBenchOptions& options) {
  const runtime library;
  const int devices = library.device_count();
  if (options.device >= devices) {
    return complain(fmt::format("--device {}: there {} {} (WHERRY_DEVICES chooses them)",
                                options.device, devices == 1 ? "is only" : "are only", devices));
  }
  const device on = library.device(options.device);
  if (options.bytes > on.total_memory()) {
    return complain(
        fmt::format("--bytes {}: device {} holds only {} (WHERRY_DEVICES says how much)",
                    options.bytes, options.device, on.total_memory()));
  }
  const BenchReport report = PrefetchBench(options, on).run();
  return print_out(options.json ? as_json(report) : as_text(report));
}

}  // namespace wherry::tool
