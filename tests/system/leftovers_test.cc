// After a program has freed everything, or has ended in any way, nothing is left, by Linux's
// counts.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/memory_group.h"
#include "support/session.h"
#include "support/virtual_memory.h"
#include "support/witness.h"

namespace wherry::test::leftovers_test {
namespace {

constexpr const char* two_devices = "capacity=16M,workers=2;capacity=64M,workers=1";
constexpr int limit_ms = 5'000;

bool becomes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{limit_ms};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

std::size_t entries_of(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder}) ++count;
  return count;
}

// Linux's counts for the host process and the device processes.
struct Counts {
  std::vector<std::size_t> values;

  static Counts now(const Session& session) {
    Counts counts;
    for (int processor = 0; processor <= session.devices(); ++processor) {
      const std::string process = "/proc/" + std::to_string(Witness::process_of(processor));
      std::ifstream maps{process + "/maps"};
      std::size_t lines = 0;
      for (std::string line; std::getline(maps, line);) ++lines;
      counts.values.push_back(lines);
      counts.values.push_back(entries_of(process + "/fd"));
      counts.values.push_back(entries_of(process + "/task"));
    }
    return counts;
  }
  bool within(const Counts& other) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] > other.values[i]) return false;
    return true;
  }
  std::string describe() const {
    std::ostringstream text;
    text << "mappings, descriptors and threads of host, device 0, device 1:";
    for (const std::size_t value : values) text << " " << value;
    return text.str();
  }
};

// Creates one object of each kind that a program can have, uses it and frees it.
void use_everything(const Session& session) {
  WHERRY_TRY(cuCtxSetCurrent(session.context(1)));
  CUstream stream = nullptr;
  CUevent event = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_DEFAULT));
  Managed<std::byte> managed{24 * mebibyte};
  for (std::size_t i = 0; i < managed.size(); i += 4096) managed[i] = std::byte{1};
  const auto address = reinterpret_cast<CUdeviceptr>(managed.data());
  for (const int device : {0, 1}) {
    session.run(device, [memory = managed.data(), device] {
      for (std::size_t i = static_cast<std::size_t>(device); i < 24 * mebibyte; i += 8192)
        memory[i] = std::byte{2};
    });
  }
  WHERRY_TRY(cuMemAdvise(address, 4 * mebibyte, CU_MEM_ADVISE_SET_READ_MOSTLY, on_host));
  WHERRY_TRY(cuMemAdvise(address + 4 * mebibyte, 4 * mebibyte, CU_MEM_ADVISE_SET_ACCESSED_BY,
                         on_device(0)));
  WHERRY_TRY(cuMemAdvise(address + 8 * mebibyte, 4 * mebibyte, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                         on_device(1)));
  WHERRY_TRY(wherryPinPages(address + 12 * mebibyte, mebibyte));
  WHERRY_TRY(cuMemPrefetchAsync(address, 12 * mebibyte, on_device(1), 0, stream));
  WHERRY_TRY(cuStreamSynchronize(stream));
  session.run(0, [memory = managed.data()] {
    for (std::size_t i = 0; i < 24 * mebibyte; i += 4096)
      if (memory[i] == std::byte{77}) __builtin_trap();
  });

  CUdeviceptr own = 0, of_pool = 0, for_kernels = 0;
  void* host = nullptr;
  std::vector<std::byte> ordinary(mebibyte);
  WHERRY_TRY(cuMemAlloc(&own, 4 * mebibyte));
  WHERRY_TRY(cuMemAllocAsync(&of_pool, mebibyte, stream));
  WHERRY_TRY(cuMemAllocHost(&host, 2 * mebibyte));
  WHERRY_TRY(cuMemHostRegister(ordinary.data(), ordinary.size(), 0));
  WHERRY_TRY(cuMemHostGetDevicePointer(&for_kernels, ordinary.data(), 0));
  WHERRY_TRY(cuMemsetD8Async(own, 1, 4 * mebibyte, stream));
  WHERRY_TRY(cuMemcpyAsync(of_pool, own, mebibyte, stream));
  WHERRY_TRY(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(host), of_pool, mebibyte, stream));
  WHERRY_TRY(cuMemcpyAsync(for_kernels, address, mebibyte, stream));
  WHERRY_TRY(cuLaunchHostFunc(
      stream, [](void*) {}, nullptr));
  WHERRY_TRY(cuEventRecord(event, stream));
  WHERRY_TRY(cuEventSynchronize(event));
  {
    const Addresses reserved{vm_step};
    const Physical physical{vm_step, on_device(1)};
    const CUmemAccessDesc access{on_device(1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    WHERRY_TRY(cuMemMap(reserved, vm_step, 0, physical, 0));
    WHERRY_TRY(cuMemSetAccess(reserved, vm_step, &access, 1));
    WHERRY_TRY(cuMemsetD8(reserved, 3, vm_step));
    WHERRY_TRY(cuCtxSynchronize());
    WHERRY_TRY(cuMemUnmap(reserved, vm_step));
  }
  WHERRY_TRY(cuMemHostUnregister(ordinary.data()));
  WHERRY_TRY(cuMemFreeHost(host));
  WHERRY_TRY(cuMemFreeAsync(of_pool, stream));
  WHERRY_TRY(cuMemFree(own));
  WHERRY_TRY(cuStreamSynchronize(stream));
  CUmemoryPool pool = nullptr;
  WHERRY_TRY(cuDeviceGetDefaultMemPool(&pool, 1));
  WHERRY_TRY(cuMemPoolTrimTo(pool, 0));
  WHERRY_TRY(cuEventDestroy(event));
  WHERRY_TRY(cuStreamDestroy(stream));
}

// A device keeps pages of freed memory for its next allocations, and gives them up when an
// allocation finds the device full.
void give_up_freed_memory() {
  CUdeviceptr all = 0;
  WHERRY_TRY(cuMemAlloc(&all, 64 * mebibyte));  // all that device 1 can hold
  WHERRY_TRY(cuMemFree(all));
}

// If each round left something behind, the counts would grow in every stretch of rounds. What is
// kept for as many threads as were ever busy grows only at first: on 16 CPUs, by a few mappings.
void expect_no_growth(const Session& session, int cycles) {
  constexpr int stretches = 6;
  int quiet = 0;  // stretches one after the other
  std::string counts = Counts::now(session).describe();
  for (int i = 0; i < stretches; ++i) {
    const Counts before = Counts::now(session);
    for (int n = 0; n < cycles; ++n) use_everything(session);
    quiet = becomes_true([&] { return Counts::now(session).within(before); }) ? quiet + 1 : 0;
    if (quiet == 2) return;
    counts +=
        "; after " + std::to_string(cycles) + " more rounds " + Counts::now(session).describe();
  }
  expect(false, counts);
}

TEST_CASE("after everything is freed every pool is empty, and nothing piles up", "[system]") {
  const Outcome outcome = in_fresh_process(
      [] {
        ::mallopt(M_ARENA_MAX, 1);  // glibc maps another arena where threads contend
        const Session session{two_devices};
        const Witness witness;
        for (int n = 0; n < 3; ++n) use_everything(session);
        const auto cycles = static_cast<int>(scaled(25));
        expect_no_growth(session, cycles);
        give_up_freed_memory();
        for (int processor = 0; processor < witness.processors(); ++processor) {
          const auto is_empty = [&] { return witness.pool_bytes(processor) == 0; };
          expect(becomes_true(is_empty),
                 "the pool of processor " + std::to_string(processor) + " has " +
                     std::to_string(witness.pool_bytes(processor)) + " bytes, of which " +
                     std::to_string(witness.used_bytes(processor)) + " are in use");
        }
      },
      240'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// A way in which a program ends.
struct End {
  const char* name;
  void (*end)();
};
constexpr End ends[] = {
    {"exit", [] { std::exit(0); }},
    {"_exit", [] { ::_exit(0); }},
    {"SIGKILL", [] { ::kill(::getpid(), SIGKILL); }},
    {"abort", [] { std::abort(); }},
    {"another program", [] { ::execl("/bin/true", "true", nullptr); }},
};

TEST_CASE("however a program ends, none of its processes and pages are left", "[system]") {
  const auto group = MemoryGroup::make();
  if (group == nullptr) WARN("no memory cgroup can be made: pages are not counted");
  for (const End& end : ends) {
    Child child{[&] {
      if (group != nullptr) group->join();
      const Session session{two_devices};
      use_everything(session);
      const auto keep = std::make_unique<Managed<std::byte>>(32 * mebibyte);
      for (std::size_t i = 0; i < keep->size(); i += 4096) (*keep)[i] = std::byte{1};
      session.run(0, [memory = keep->data()] { memory[5 * mebibyte] = std::byte{2}; });
      CUdeviceptr own = 0;
      WHERRY_TRY(cuMemAlloc(&own, 4 * mebibyte));
      std::printf("%d %d\n", device_process(0), device_process(1));
      std::fflush(stdout);
      end.end();
    }};
    std::istringstream line{child.read_line(60'000)};
    pid_t devices[2] = {};
    line >> devices[0] >> devices[1];
    const Outcome outcome = child.wait();
    INFO(end.name << ": " << outcome.describe());
    CHECK_FALSE(outcome.timed_out);  // writing the arena to a core dump would take long
    CHECK(outcome.closed);
    for (const pid_t device : devices) {
      CHECK(device > 0);
      CHECK(becomes_true([&] { return !is_running(device); }));
    }
    if (group == nullptr) continue;
    CHECK(becomes_true([&] { return !group->is_used(); }));
    becomes_true([&] { return group->file_memory() == 0; });
    CHECK(group->file_memory() == 0);
  }
}

}  // namespace
}  // namespace wherry::test::leftovers_test
