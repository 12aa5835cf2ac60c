#include "calibration.h"

#include <fmt/core.h>
#include <wherry/events.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <vector>
#include <wherry/wherry.hpp>

#include "apart.h"
#include "bench_report.h"
#include "progress.h"

namespace wherry::tool {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::array<unsigned, 3> regions{1, 16, 512};  // in pages
// The first pass warms up.
constexpr int passes = 6;

// Faults in a pass: fewer with large regions, so that all passes take about the same time.
std::size_t units_of(unsigned pages) {
  return pages == 512 ? 8 : 64;
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void read(const volatile std::byte* at) {
  [[maybe_unused]] const std::byte value = *at;
}

// The times of faults: in the fault handler, and in the thread that waited.
struct Times {
  std::vector<double> service;
  std::vector<double> thread;
};
struct Medians {
  double service = 0;
  double thread = 0;
};
Medians medians_of(const Times& times, const char* of) {
  if (times.service.empty())
    throw std::runtime_error(fmt::format("there were no {} to measure", of));
  return {quantile(times.service, 0.5), times.thread.empty() ? 0 : quantile(times.thread, 0.5)};
}

// Records events while it lives.
class Recording {
 public:
  Recording() {
    constexpr std::size_t capacity = 1 << 14;
    detail::check(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_FAULT) |
                                        WHERRY_EVENT_BIT(WHERRY_EVENT_EVICTION),
                                    capacity),
                  "wherryStartEvents");
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { wherryStopEvents(); }

  std::vector<wherryEvent> take() {
    std::vector<wherryEvent> all;
    for (std::size_t read = 1; read != 0;) {
      std::array<wherryEvent, 256> some{};
      some[0].size = sizeof(wherryEvent);
      detail::check(wherryReadEvents(some.data(), some.size(), &read), "wherryReadEvents");
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(read));
    }
    return all;
  }
};

// Memory divided into units of one fault region; each pass accesses every unit once.
class Units {
 public:
  Units(unsigned pages, stream& device, Recording& recording)
      : unit_(pages * page_bytes),
        count_(units_of(pages)),
        data_((count_ + 1) * unit_),
        thread_ns_(count_),
        device_(device),
        recording_(recording) {
    const auto address = reinterpret_cast<std::uintptr_t>(data_.data());
    first_ = data_.data() + ((address + unit_ - 1) / unit_ * unit_ - address);
  }

  void touch_by_host(Times& times, bool write) {
    // Discards earlier events.
    (void)recording_.take();
    for (double& each : thread_ns_) each = 0;
    touch_all(first_, unit_, count_, thread_ns_.data(), write);
    collect(times);
  }
  void touch_by_device(Times& times, bool write) {
    (void)recording_.take();
    device_.parallel_for(1, [first = first_, unit = unit_, count = count_, to = thread_ns_.data(),
                             write](std::size_t) {
      // Makes the pages of the results resident before the first timed access.
      for (std::size_t i = 0; i < count; ++i) to[i] = 0;
      touch_all(first, unit, count, to, write);
    });
    device_.synchronize();
    collect(times);
  }
  // Nanoseconds per page for the device to read all of the memory.
  double read_by_device() {
    device_.parallel_for(
        1, [first = first_, bytes = count_ * unit_, to = thread_ns_.data()](std::size_t) {
          *to = 0;
          for (int round = 0; round < 2; ++round) {  // the first round makes the memory resident
            const double begin = now_ns();
            for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t))
              (void)*reinterpret_cast<const volatile std::uint64_t*>(first + at);
            *to = now_ns() - begin;
          }
        });
    device_.synchronize();
    return thread_ns_[0] / static_cast<double>(count_ * unit_ / page_bytes);
  }
  std::span<std::byte> span() const { return {first_, count_ * unit_}; }

 private:
  static void touch_all(std::byte* first, std::size_t unit, std::size_t count, double* to,
                        bool write) {
    for (std::size_t i = 0; i < count; ++i) {
      volatile std::byte* const at = first + i * unit;
      const double begin = now_ns();
      if (write)
        *at = std::byte{1};
      else
        read(at);
      to[i] = now_ns() - begin;
    }
  }
  // Collects the events of the units. Faults on other memory, such as the results themselves, are
  // left out.
  void collect(Times& times) {
    times.thread.insert(times.thread.end(), thread_ns_.begin(), thread_ns_.end());
    const auto start = reinterpret_cast<std::uintptr_t>(first_);
    for (const wherryEvent& event : recording_.take())
      if (event.kind == WHERRY_EVENT_FAULT && event.address - start < count_ * unit_)
        times.service.push_back(static_cast<double>(event.duration_ns));
  }

  std::size_t unit_;
  std::size_t count_;
  managed_array<std::byte> data_;
  managed_array<double> thread_ns_;
  std::byte* first_;
  stream& device_;
  Recording& recording_;
};

void start(const char* devices, unsigned region_pages, const char* policy) {
  // Other settings stay as in the environment, because programs on this machine use them.
  ::setenv("WHERRY_DEVICES", devices, 1);
  ::setenv("WHERRY_FAULT_REGION", fmt::format("{}K", region_pages * page_bytes / 1024).c_str(), 1);
  ::unsetenv("WHERRY_TRACE");
  detail::check(wherrySetPolicy(policy), "wherrySetPolicy");
}

constexpr const char* roomy_device = "capacity=96M,workers=1";

// ---- the measurements, each in its own process

struct Moves {
  Medians populate_host, populate_device, to_host, to_device, duplicate, collapse;
};
Moves measure_moves(unsigned pages) {
  start(roomy_device, pages, "migrate-always");
  const runtime library;
  stream device(library.device(0));
  Recording recording;
  Times populate_host, populate_device, to_host, to_device, duplicate, collapse;
  for (int pass = 0; pass < passes; ++pass) {
    if (pass == 1)
      for (Times* times :
           {&populate_host, &populate_device, &to_host, &to_device, &duplicate, &collapse})
        *times = {};
    Units one(pages, device, recording);
    one.touch_by_host(populate_host, true);
    one.touch_by_device(to_device, true);
    one.touch_by_host(to_host, true);
    advise(one.span(), advice::set_read_mostly);
    one.touch_by_device(duplicate, false);
    one.touch_by_host(collapse, true);
    Units other(pages, device, recording);
    other.touch_by_device(populate_device, true);
  }
  return {medians_of(populate_host, "first touches"),
          medians_of(populate_device, "first touches by a device"),
          medians_of(to_host, "pages that move to the host"),
          medians_of(to_device, "pages that move to a device"),
          medians_of(duplicate, "copies"),
          medians_of(collapse, "writes to copies")};
}

struct Remote {
  double map = 0;
  double read_local_page = 0;
  double read_remote_page = 0;
};
Remote measure_remote(unsigned pages) {
  start(roomy_device, pages, "first-touch");
  const runtime library;
  stream device(library.device(0));
  Recording recording;
  Times map;
  std::vector<double> local, remote;
  for (int pass = 0; pass < passes; ++pass) {
    if (pass == 1) map = {};
    Units hosts(pages, device, recording);
    Times unused;
    hosts.touch_by_host(unused, true);
    hosts.touch_by_device(map, false);
    Units own(pages, device, recording);
    own.touch_by_device(unused, true);
    if (pass == 0) continue;
    remote.push_back(hosts.read_by_device());
    local.push_back(own.read_by_device());
  }
  return {medians_of(map, "remote mappings").service, quantile(local, 0.5), quantile(remote, 0.5)};
}

struct Capacity {
  double evict_page = 0;
  double minor = 0;
  double prefetch_page = 0;
};
Capacity measure_capacity() {
  constexpr std::size_t pool = std::size_t{8} << 20;
  constexpr unsigned pages = 16;
  start("capacity=8M,workers=1", pages, "migrate-always");
  const runtime library;
  stream device(library.device(0));
  Recording recording;
  std::vector<double> evict, prefetched;
  Times minor;
  for (int pass = 0; pass < passes; ++pass) {
    if (pass == 1) {
      minor = {};
      evict.clear();
    }
    managed_array<std::byte> data(2 * pool);
    const auto address = reinterpret_cast<std::uintptr_t>(data.data());
    (void)recording.take();
    device.parallel_for(1, [first = data.data()](std::size_t) {
      for (std::size_t at = 0; at < 2 * pool; at += page_bytes) first[at] = std::byte{1};
    });
    device.synchronize();
    for (const wherryEvent& event : recording.take())
      if (event.kind == WHERRY_EVENT_EVICTION && event.bytes != 0)
        evict.push_back(static_cast<double>(event.duration_ns) /
                        static_cast<double>(event.bytes / page_bytes));
    // Evicted pages are at the host, without page table entries.
    for (std::size_t at = 0; at < data.size(); at += pages * page_bytes) read(data.data() + at);
    for (const wherryEvent& event : recording.take())
      if (event.kind == WHERRY_EVENT_FAULT && event.address - address < data.size() &&
          event.detail == WHERRY_FAULT_MINOR)
        minor.service.push_back(static_cast<double>(event.duration_ns));
    const std::span<std::byte> half = data.span().first(pool / 2);
    for (std::byte& byte : half) byte = std::byte{2};
    const double begin = now_ns();
    prefetch(half, library.device(0), device);
    device.synchronize();
    if (pass != 0) prefetched.push_back((now_ns() - begin) / (pool / 2 / page_bytes));
  }
  if (evict.empty()) throw std::runtime_error("there were no evictions to measure");
  return {quantile(evict, 0.5), medians_of(minor, "minor faults").service,
          quantile(prefetched, 0.5)};
}

}  // namespace

std::variant<replay::CostModel, std::string> calibrate() {
  std::array<Moves, regions.size()> moves;
  std::array<Remote, regions.size()> remote;
  Capacity capacity;
  std::string wrong;
  Progress progress;
  for (std::size_t i = 0; i < regions.size() && wrong.empty(); ++i) {
    progress.enter_step(i + 1, regions.size() + 1);
    progress.show(fmt::format("what a fault costs that moves {} pages", regions[i]));
    wrong = run_apart(moves[i], [&](Moves& result) { result = measure_moves(regions[i]); });
    if (wrong.empty())
      wrong = run_apart(remote[i], [&](Remote& result) { result = measure_remote(regions[i]); });
  }
  progress.enter_step(regions.size() + 1, regions.size() + 1);
  progress.show("what an eviction costs");
  if (wrong.empty())
    wrong = run_apart(capacity, [](Capacity& result) { result = measure_capacity(); });
  if (!wrong.empty()) return wrong;

  const auto fit = [](const auto& ns_of) {
    std::array<replay::CostSample, regions.size()> samples;
    for (std::size_t i = 0; i < regions.size(); ++i) samples[i] = {regions[i], ns_of(i)};
    return replay::fit(samples);
  };
  const auto fit_moves = [&](Medians Moves::*which) {
    return fit([&](std::size_t i) { return (moves[i].*which).service; });
  };
  replay::CostModel costs;
  costs.populate_host = fit_moves(&Moves::populate_host);
  costs.populate_device = fit_moves(&Moves::populate_device);
  costs.migrate_to_host = fit_moves(&Moves::to_host);
  costs.migrate_to_device = fit_moves(&Moves::to_device);
  costs.duplicate = fit_moves(&Moves::duplicate);
  costs.remote_map = fit([&](std::size_t i) { return remote[i].map; });
  costs.minor_ns = capacity.minor;
  costs.collapse_ns = moves[0].collapse.service;
  costs.evict_page_ns = capacity.evict_page;
  costs.prefetch_page_ns = capacity.prefetch_page;
  const auto around = [](const Medians& fault) {
    return std::max(0.0, fault.thread - fault.service);
  };
  costs.round_trip_host_ns = around(moves[0].to_host);
  costs.round_trip_device_ns = around(moves[0].to_device);
  // Reads of a whole block, since pages are usually read from end to end.
  costs.read_local_page_ns = remote.back().read_local_page;
  costs.read_remote_page_ns = remote.back().read_remote_page;
  costs.machine = describe_machine();
  return costs;
}

}  // namespace wherry::tool
