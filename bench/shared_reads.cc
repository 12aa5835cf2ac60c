// Do processors that read the same pages run at the speed of plain memory, without faults? Measures
// read-mostly pages after the first copy, and accessed-by pages that other processors move back and
// forth.
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "measure/bare_trap.h"
#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr std::size_t page = 4096;

// ---- read-mostly

struct Line {
  std::uint64_t next;  // the lines form one cycle in random order
  std::uint64_t more[7];
};
static_assert(sizeof(Line) == 64);

constexpr std::size_t line_count = std::size_t{512} << 10;
constexpr std::size_t read_bytes = line_count * sizeof(Line);
constexpr std::size_t step_count = line_count / 8;
constexpr int runs = 21;

void fill(Line* lines) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < line_count; ++i) lines[i] = {i, {}};
  for (std::size_t i = line_count - 1; i > 0; --i)
    std::swap(lines[i].next, lines[random() % i].next);
}

void use(std::uint64_t value) {
  asm volatile("" : : "r"(value));
}

// GB/s for reading from the first to the last byte, by CPU time: reads without faults do not wait.
double bandwidth(const Line* lines) {
  const double start = cpu_ns();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < line_count; ++i) {
    sum += lines[i].next;
    for (const std::uint64_t word : lines[i].more) sum += word;
  }
  use(sum);
  return static_cast<double>(read_bytes) / (cpu_ns() - start);
}

// Nanoseconds for one read that depends on the previous one.
double latency(const Line* lines) {
  const double start = cpu_ns();
  std::uint64_t at = 0;
  for (std::size_t step = 0; step < step_count; ++step) at = lines[at].next;
  use(at);
  return (cpu_ns() - start) / static_cast<double>(step_count);
}

struct Speed {
  double managed, to_shared, to_private;  // the latter two are ratios to plain memory
};
struct Speeds {
  Speed bandwidth, latency;
};

// Maps memory of the process that reads: the host or a device process.
Line* map_plain(int sharing) {
  void* const place =
      ::mmap(nullptr, read_bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) fail("mmap of plain memory");
  fill(static_cast<Line*>(place));
  return static_cast<Line*>(place);
}

Speed measure_one(double (*measure)(const Line*), const Line* managed, const Line* shared,
                  const Line* anonymous) {
  std::vector<double> of_managed, of_shared, of_private;
  for (int run = -1; run < runs; ++run) {
    const double first = measure(managed);
    const double second = measure(shared);
    const double third = measure(anonymous);
    if (run < 0) continue;  // the first run warms up
    of_managed.push_back(first);
    of_shared.push_back(second);
    of_private.push_back(third);
  }
  return {median(of_managed), median_ratio(of_managed, of_shared),
          median_ratio(of_managed, of_private)};
}

void measure_speeds(const Line* managed, Speeds& result) {
  pin_to_allowed_cpu(0);
  Line* const shared = map_plain(MAP_SHARED);
  Line* const anonymous = map_plain(MAP_PRIVATE);
  result = {measure_one(bandwidth, managed, shared, anonymous),
            measure_one(latency, managed, shared, anonymous)};
  ::munmap(shared, read_bytes);
  ::munmap(anonymous, read_bytes);
}

struct DeviceSpeeds {
  const Line* managed;
  Speeds* result;
};

void speeds_kernel(const void* args, std::size_t, std::size_t) {
  const DeviceSpeeds& what = *static_cast<const DeviceSpeeds*>(args);
  measure_speeds(what.managed, *what.result);
}

// Creates the device's copies, and makes the memory for the results resident there.
void first_read_kernel(const void* args, std::size_t, std::size_t) {
  const DeviceSpeeds& what = *static_cast<const DeviceSpeeds*>(args);
  use(static_cast<std::uint64_t>(bandwidth(what.managed)));
  *what.result = {};
}

void start_library() {
  ::setenv("WHERRY_DEVICES", "capacity=1G,workers=1;capacity=1G,workers=1", 1);
  allowed_cpus();
  init_cuda();
}

Measurements measure_read_mostly() {
  start_library();
  std::byte* const memory = alloc_managed(read_bytes);
  auto* const lines = reinterpret_cast<Line*>(memory);
  fill(lines);
  advise(memory, read_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, host_location);

  Speeds at_host{};
  std::vector<Speeds*> at_devices;
  for (const int device : {0, 1}) {
    // The results stay at the device, so that writing them causes no fault; the host reads them
    // remotely.
    std::byte* const place = alloc_managed(page);
    advise(place, page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device_location(device));
    at_devices.push_back(reinterpret_cast<Speeds*>(place));
    use_device(device);
    run_on_device(first_read_kernel, DeviceSpeeds{lines, at_devices.back()});
  }

  const wherryStats before = stats();
  measure_speeds(lines, at_host);
  for (const int device : {0, 1}) {
    use_device(device);
    run_on_device(speeds_kernel, DeviceSpeeds{lines, at_devices[static_cast<std::size_t>(device)]});
  }
  const wherryStats after = stats();

  Measurements results;
  const auto add = [&](std::size_t processor, const char* name, const Speeds& speeds) {
    const double faults = static_cast<double>(fault_count(after.processor[processor]) -
                                              fault_count(before.processor[processor]));
    const Measurement rows[] = {
        {"faults", faults, "", 0, {}},
        {"bandwidth", speeds.bandwidth.managed, "GB/s", {}, {}},
        {"bandwidth, ratio to plain shared", speeds.bandwidth.to_shared, "x", {}, 0.95},
        {"bandwidth, ratio to plain private", speeds.bandwidth.to_private, "x", {}, {}},
        {"latency", speeds.latency.managed, "ns", {}, {}},
        {"latency, ratio to plain shared", speeds.latency.to_shared, "x", 1.05, {}},
        {"latency, ratio to plain private", speeds.latency.to_private, "x", {}, {}}};
    for (Measurement row : rows) {
      row.name = fmt::format("read-mostly, {}, {}", name, row.name);
      results.push_back(std::move(row));
    }
  };
  add(0, "host", at_host);
  add(1, "device 0", *at_devices[0]);
  add(2, "device 1", *at_devices[1]);
  return results;
}

// ---- accessed-by

// The bytes that one fault moves by default: 64 KiB.
constexpr std::size_t stretch = 16 * page;
constexpr std::size_t stretch_count = 64;
constexpr std::size_t moved_bytes = stretch_count * stretch;
constexpr std::uint64_t rounds = 20;

// The communication between reader and movers; resident at the host and mapped everywhere.
struct Board {
  // number of the current round, in which all of the memory migrates once
  alignas(64) std::atomic<std::uint64_t> round;
  alignas(64) std::atomic<std::uint64_t> moved;   // stretches that have moved in this round
  alignas(64) std::atomic<std::uint64_t> seen;    // the round that the reader has seen
  alignas(64) std::atomic<std::uint64_t> passes;  // passes of the reader
  alignas(64) std::atomic<bool> stop;
};

struct Scene {
  std::byte* memory;
  Board* board;
  bool all;  // true: the reader also reads stretches that are moving
};

// Without `all`, each read of a stretch begins after its migration has completed, and ends before
// the next migration starts.
void read_on(const Scene& scene) {
  Board& board = *scene.board;
  while (!board.stop.load()) {
    board.seen.store(board.round.load());
    const std::size_t end = scene.all ? stretch_count : board.moved.load();
    for (std::size_t offset = 0; offset < end * stretch; offset += page)
      use(static_cast<std::uint64_t>(
          *const_cast<const volatile std::byte*>(scene.memory + offset)));
    board.passes.fetch_add(1);
    ::sched_yield();
  }
}

void move_all(const Scene& scene) {
  for (std::size_t i = 0; i < stretch_count; ++i) {
    timed_touch(scene.memory + i * stretch, stretch, page);
    scene.board->moved.store(i + 1);
  }
}

void read_kernel(const void* args, std::size_t, std::size_t) {
  read_on(*static_cast<const Scene*>(args));
}

void move_kernel(const void* args, std::size_t, std::size_t) {
  move_all(*static_cast<const Scene*>(args));
}

// -1 is the host, as in the API.
CUmemLocation location_of(int processor) {
  return processor < 0 ? host_location : device_location(processor);
}

void move_at(int processor, const Scene& scene) {
  if (processor < 0) return move_all(scene);
  use_device(processor);
  run_on_device(move_kernel, scene);
}

Measurements measure_accessed_by(int reader, const int (&movers)[2], bool all) {
  start_library();
  const Scene scene{alloc_managed(moved_bytes), new (alloc_managed(page)) Board{}, all};
  Board& board = *scene.board;
  const auto board_bytes = reinterpret_cast<std::byte*>(scene.board);
  advise(board_bytes, page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_location);
  for (const int device : {0, 1})
    advise(board_bytes, page, CU_MEM_ADVISE_SET_ACCESSED_BY, device_location(device));
  move_at(movers[0], scene);
  advise(scene.memory, moved_bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, location_of(reader));

  const auto reader_stats = [&] { return stats().processor[1 + reader]; };
  const auto migrated = [&] {
    std::uint64_t pages = 0;
    for (const int mover : movers) pages += stats().processor[1 + mover].migrated_in;
    return pages;
  };
  const std::uint64_t faults_before = fault_count(reader_stats());
  const std::uint64_t migrated_before = migrated();
  std::thread host_reader;
  if (reader < 0) {
    host_reader = std::thread(read_on, scene);
  } else {
    use_device(reader);
    require(wherryLaunchKernel(nullptr, read_kernel, &scene, sizeof scene, 1),
            "wherryLaunchKernel");
  }
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    board.moved.store(0);
    board.round.store(round);
    while (board.seen.load() != round) ::sched_yield();
    move_at(movers[round % 2], scene);
  }
  board.stop.store(true);
  if (reader < 0) {
    host_reader.join();
  } else {
    use_device(reader);
    require(cuCtxSynchronize(), "cuCtxSynchronize");
  }

  const double stretches = static_cast<double>(migrated() - migrated_before) / (stretch / page);
  const double faults = static_cast<double>(fault_count(reader_stats()) - faults_before);
  const double passes = static_cast<double>(board.passes.load());
  const std::string name =
      fmt::format("accessed by {}, {}", reader < 0 ? "the host" : fmt::format("device {}", reader),
                  all ? "also while moving" : "after each move");
  Measurements results{{name + ", stretches moved", stretches, "", {}, {}},
                       {name + ", reader's passes", passes, "", {}, {}}};
  if (all)
    results.push_back({name + ", faults a stretch", faults / stretches, "", 1, {}});
  else
    results.push_back({name + ", faults", faults, "", 0, {}});
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child(measure_read_mostly);
  const auto add = [&](int reader, const int(&movers)[2]) {
    for (const bool moving_too : {false, true}) {
      for (Measurement& next :
           measure_in_child([&] { return measure_accessed_by(reader, movers, moving_too); })) {
        all.push_back(std::move(next));
      }
    }
  };
  add(-1, {0, 1});
  add(0, {-1, 1});
  return print_report("shared_reads: pages that several processors read", all, json);
}
