#include "bench_faults.h"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "measure/bare_device.h"
#include "measure/bare_populate.h"
#include "measure/collapse.h"
#include "measure/contended_page.h"
#include "measure/managed.h"
#include "measure/migration.h"
#include "measure/plain_memory.h"
#include "measure/round_trips.h"
#include "measure/segv_pages.h"
#include "measure/touches.h"

namespace wherry::tool {
namespace {

using namespace bench;

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 4096;
constexpr std::size_t bytes = pages * page;
constexpr int runs = 5;

// Converts nanoseconds for all pages into microseconds for one page.
double us_per_page(double ns) {
  return ns / 1e3 / pages;
}

void start_with_single_pages() {
  move_single_regions(page);
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=1", 1);
  init_cuda();
  pin_to_allowed_cpu(0);
}

// A bare device whose missing pages are created by the host: as zeros, or as copies.
class BareAnswers {
 public:
  enum class With {
    zeros,
    copies,
  };

  explicit BareAnswers(With with)
      : pool_(bytes), memory_(pool_.map()), source_(bytes, PlainMemory::Pages::small) {
    device_.emplace(memory_, bytes, page);
    source_.fill();
    const int uffd = device_->uffd();
    trap_.emplace(std::vector<int>{uffd}, [this, uffd, with](std::size_t, std::uintptr_t address) {
      const std::uintptr_t start = address & ~(page - 1);
      if (with == With::zeros) return zero_pages(uffd, start, page);
      const auto offset = start - reinterpret_cast<std::uintptr_t>(memory_);
      copy_pages(uffd, start, source_.data() + offset, page);
    });
  }

  // Nanoseconds for all pages.
  double touch() {
    device_->pool().punch(0, bytes);
    return device_->touch();
  }

 private:
  BarePool pool_;
  std::byte* memory_;
  PlainMemory source_;
  std::optional<BareDevice> device_;
  std::optional<BareTrap> trap_;
};

double touch_plain(PlainMemory& plain) {
  plain.clear();
  return timed_touch(plain.data(), bytes, page);
}

// Nanoseconds for a touch of all pages, trapped by the program itself.
double touch_segv(SegvPages& by_hand) {
  by_hand.protect();
  return timed_touch(by_hand.memory(), bytes, page);
}

}  // namespace

void measure_first_touch(const BenchScale&, std::span<Figures> figures) {
  allowed_cpus();
  std::optional<BareAnswers> bare_device;
  std::optional<BarePopulate> bare;
  if (userfaultfd_permitted()) {
    bare_device.emplace(BareAnswers::With::zeros);  // forks
    bare.emplace(bytes, page);
  }
  start_with_single_pages();
  PlainMemory plain(bytes, PlainMemory::Pages::small);
  const DeviceToucher device;
  Samples by_host, by_device;
  for (int run = -1; run < runs; ++run) {
    std::byte* const memory = alloc_managed(bytes);
    by_host.value.push_back(median(timed_touches(memory, pages, page)) / 1e3);
    free_managed(memory);
    std::byte* const other = alloc_managed(bytes);
    by_device.value.push_back(us_per_page(device.touch(other, bytes, page)));
    free_managed(other);
    if (bare) {
      by_host.limit.push_back(median(timed_touches(bare->memory(), pages, page)) / 1e3);
      bare->clear();
      by_device.limit.push_back(us_per_page(bare_device->touch()));
    }
    plain.clear();
    by_host.peer.push_back(median(timed_touches(plain.data(), pages, page)) / 1e3);
    by_device.peer.push_back(us_per_page(touch_plain(plain)));
    if (run < 0) by_host = by_device = {};  // the first run warms up
  }
  figures[0] = by_host.medians();
  figures[1] = by_device.medians();
}

void measure_fault_latency(const BenchScale&, std::span<Figures> figures) {
  const MigrationTimes times = measure_migration({bytes, page, runs});
  Samples to_host, to_device, there_and_back;
  SegvPages by_hand(bytes);
  for (std::size_t run = 0; run < times.to_host.size(); ++run) {
    to_host.value.push_back(us_per_page(times.to_host[run]));
    to_device.value.push_back(us_per_page(times.to_device[run]));
    to_host.peer.push_back(us_per_page(touch_segv(by_hand)));
    if (times.bare_to_host.empty()) continue;
    to_host.limit.push_back(us_per_page(times.bare_to_host[run]));
    to_device.limit.push_back(us_per_page(times.bare_to_device[run]));
    there_and_back.limit.push_back(to_host.limit.back() + to_device.limit.back());
  }
  to_device.peer = to_host.peer;

  std::byte* const memory = alloc_managed(contended_bytes);
  const DeviceToucher device;
  for (int i = 0; i < 500; ++i)
    there_and_back.value.push_back(
        (device.touch(memory, page, page) + timed_touch(memory, page, page)) / 1e3);
  there_and_back.peer.push_back(futex_round_trip_us());
  Samples contended{{}, there_and_back.limit, there_and_back.peer};
  constexpr Contention one_page{.distance = 64, .in_turn = true};
  // In one round trip of the page, each of the two sides writes once: two writes.
  for (int run = 0; run < 3; ++run)
    contended.value.push_back(2e6 / contend(memory, one_page, -1, 0).writes_per_s);
  figures[0] = to_host.medians();
  figures[1] = to_device.medians();
  figures[2] = there_and_back.medians();
  figures[3] = contended.medians();
}

void measure_read_mostly(const BenchScale&, std::span<Figures> figures) {
  allowed_cpus();
  std::optional<BareAnswers> bare;
  if (userfaultfd_permitted()) bare.emplace(BareAnswers::With::copies);  // forks
  start_with_single_pages();
  PlainMemory from(bytes, PlainMemory::Pages::small), to(bytes, PlainMemory::Pages::small);
  from.fill();
  to.fill();
  const DeviceToucher device;
  Samples reads;
  for (int run = -1; run < runs; ++run) {
    std::byte* const memory = alloc_managed(bytes);
    timed_touch(memory, bytes, page);
    advise(memory, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, host_location);
    reads.value.push_back(
        us_per_page(device.touch(memory, bytes, page, DeviceToucher::Access::read)));
    free_managed(memory);
    if (bare) reads.limit.push_back(us_per_page(bare->touch()));
    reads.peer.push_back(us_per_page(ns_of([&] { std::memcpy(to.data(), from.data(), bytes); })));
    if (run < 0) reads = {};
  }
  figures[0] = reads.medians();
}

void measure_write_collapse(const BenchScale&, std::span<Figures> figures) {
  // Each write is a fault of its own, far from the previous one.
  const CollapseTimes times =
      measure_collapse({bytes, page, 16 * page, /*devices=*/1, /*runs=*/3 * runs});
  Samples writes{times.ours, times.bare, {}};
  SegvPages by_hand(bytes);
  for (int run = 0; run < runs; ++run) writes.peer.push_back(us_per_page(touch_segv(by_hand)));
  figures[0] = writes.medians();
}

void measure_remote_map(const BenchScale&, std::span<Figures> figures) {
  start_with_single_pages();
  const DeviceToucher device;
  Samples maps;
  for (int run = -1; run < runs; ++run) {
    std::byte* const memory = alloc_managed(bytes);
    advise(memory, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_location);
    timed_touch(memory, bytes, page);
    maps.value.push_back(us_per_page(device.touch(memory, bytes, page)));
    free_managed(memory);
    maps.limit.push_back(map_page_us());
    if (run < 0) maps = {};
  }
  if (stats().mapped_remotely == 0) throw std::runtime_error("no page was mapped remotely");
  figures[0] = maps.medians();
}

}  // namespace wherry::tool
