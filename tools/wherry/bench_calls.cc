#include "bench_calls.h"

#include <sys/mman.h>

#include <cstdlib>

#include "measure/managed.h"
#include "measure/plain_memory.h"
#include "measure/round_trips.h"

namespace wherry::tool {
namespace {

using namespace bench;

constexpr int calls = 2000;
constexpr int runs = 5;
constexpr std::size_t block = std::size_t{2} << 20;
constexpr std::size_t advised = std::size_t{64} << 20;

void do_nothing(const void*, std::size_t, std::size_t) {}

void start() {
  ::setenv("WHERRY_DEVICES", "capacity=256M", 1);
  init_cuda();
}

// The median of single calls, in microseconds. The first tenth warms up.
template <typename Call>
double median_us(const Call& call) {
  std::vector<double> each;
  for (int i = -calls / 10; i < calls; ++i) {
    const double ns = ns_of(call);
    if (i >= 0) each.push_back(ns);
  }
  return median(each) / 1e3;
}

// The median in microseconds of calls that are about as short as reading the clock: times 100 at
// once.
template <typename Call>
double median_of_batches_us(const Call& call) {
  constexpr int batch = 100;
  return median_us([&] {
           for (int i = 0; i < batch; ++i) call();
         }) /
         batch;
}

CUdeviceptr address_of(std::byte* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

double pointer_attribute_us(std::byte* memory) {
  return median_of_batches_us([&] {
    unsigned type = 0;
    require(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(memory)),
            "cuPointerGetAttribute");
  });
}

double range_attribute_us(std::byte* memory) {
  return median_of_batches_us([&] {
    int value = 0;
    require(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                   address_of(memory), advised),
            "cuMemRangeGetAttribute");
  });
}

// Advises memory without a resident page. Two kinds of advice alternate, so that each call changes
// something.
double advise_us(std::byte* memory) {
  bool set = false;
  return median_us([&] {
    set = !set;
    advise(memory, advised, set ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY,
           host_location);
  });
}

double madvise_us(const PlainMemory& plain) {
  bool set = false;
  return median_us([&] {
    set = !set;
    if (::madvise(plain.data(), plain.size(), set ? MADV_RANDOM : MADV_NORMAL) != 0)
      fail("madvise");
  });
}

double event_query_us() {
  CUevent event = nullptr;
  require(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  require(cuEventRecord(event, nullptr), "cuEventRecord");
  require(cuEventSynchronize(event), "cuEventSynchronize");
  const double result = median_of_batches_us([&] { require(cuEventQuery(event), "cuEventQuery"); });
  require(cuEventDestroy(event), "cuEventDestroy");
  return result;
}

double launch_us() {
  return median_us([] {
    require(wherryLaunchKernel(nullptr, do_nothing, nullptr, 0, 1), "wherryLaunchKernel");
    require(cuCtxSynchronize(), "cuCtxSynchronize");
  });
}

double prefetch_us(std::byte* there) {
  return median_us([&] {
    require(cuMemPrefetchAsync(address_of(there), block, device_location(0), 0, nullptr),
            "cuMemPrefetchAsync");
    require(cuCtxSynchronize(), "cuCtxSynchronize");
  });
}

}  // namespace

void measure_launch(const BenchScale&, std::span<Figures> figures) {
  start();
  std::byte* const there = alloc_managed(block);
  require(cuMemPrefetchAsync(address_of(there), block, device_location(0), 0, nullptr),
          "cuMemPrefetchAsync");
  require(cuCtxSynchronize(), "cuCtxSynchronize");
  Samples launch, prefetch;
  for (int run = 0; run < runs; ++run) {
    launch.value.push_back(launch_us());
    prefetch.value.push_back(prefetch_us(there));
    launch.limit.push_back(futex_round_trip_us());
    launch.peer.push_back(thread_pool_round_trip_us());
  }
  prefetch.limit = launch.limit;
  prefetch.peer = launch.peer;
  figures[0] = launch.medians();
  figures[1] = prefetch.medians();
}

void measure_calls(const BenchScale&, std::span<Figures> figures) {
  start();
  std::byte* const memory = alloc_managed(advised);
  const PlainMemory plain(advised, PlainMemory::Pages::small);
  Samples pointer, range, event, advice;
  for (int run = 0; run < runs; ++run) {
    pointer.value.push_back(pointer_attribute_us(memory));
    range.value.push_back(range_attribute_us(memory));
    event.value.push_back(event_query_us());
    advice.value.push_back(advise_us(memory));
    advice.peer.push_back(madvise_us(plain));
    pointer.limit.push_back(system_call_us());
  }
  range.limit = event.limit = advice.limit = pointer.limit;
  figures[0] = pointer.medians();
  figures[1] = range.medians();
  figures[2] = event.medians();
  figures[3] = advice.medians();
}

}  // namespace wherry::tool
