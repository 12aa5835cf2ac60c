// What does one API call cost? NVIDIA's drivers answer these calls in 0.3 to 10 us (launch and
// wait: 8.6 us).
#include <benchmark/benchmark.h>
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <cstdlib>
#include <vector>

namespace {

void do_nothing(const void*, std::size_t, std::size_t) {}

void require(CUresult result) {
  if (result != CUDA_SUCCESS) std::abort();
}

void alloc_and_free(benchmark::State& state) {
  for (auto _ : state) {
    CUdeviceptr pointer = 0;
    require(cuMemAllocManaged(&pointer, static_cast<std::size_t>(state.range(0)),
                              CU_MEM_ATTACH_GLOBAL));
    require(cuMemFree(pointer));
  }
}
BENCHMARK(alloc_and_free)->Arg(64 << 10)->Arg(16 << 20)->Arg(std::int64_t{1} << 30);

// Device memory, which keeps its pages for the next allocation when it is freed, within limits.
void alloc_and_free_device(benchmark::State& state) {
  const auto pair = [&] {
    CUdeviceptr pointer = 0;
    require(cuMemAlloc(&pointer, static_cast<std::size_t>(state.range(0))));
    require(cuMemFree(pointer));
  };
  pair();  // creates the pages
  for (auto _ : state) pair();
}
BENCHMARK(alloc_and_free_device)->Arg(64 << 10)->Arg(1 << 20)->Arg(128 << 20)->UseRealTime();

// The argument is the number of other live allocations.
void address_range(benchmark::State& state) {
  std::vector<CUdeviceptr> alive(static_cast<std::size_t>(state.range(0)));
  for (CUdeviceptr& pointer : alive)
    require(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
  std::size_t next = 0;
  for (auto _ : state) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    next = (next + 7919) % alive.size();
    require(cuMemGetAddressRange(&base, &size, alive[next] + 100));
    benchmark::DoNotOptimize(base);
  }
  for (const CUdeviceptr pointer : alive) require(cuMemFree(pointer));
}
BENCHMARK(address_range)->Arg(1)->Arg(1000)->Arg(100'000);

// Alternates between two kinds of advice, so that each call changes something. No page is resident.
void advise(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  CUdeviceptr pointer = 0;
  require(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmem_advise next = CU_MEM_ADVISE_SET_READ_MOSTLY;
  for (auto _ : state) {
    require(cuMemAdvise(pointer, bytes, next, host));
    next = next == CU_MEM_ADVISE_SET_READ_MOSTLY ? CU_MEM_ADVISE_UNSET_READ_MOSTLY
                                                 : CU_MEM_ADVISE_SET_READ_MOSTLY;
  }
  require(cuMemFree(pointer));
}
BENCHMARK(advise)->Arg(1 << 20)->Arg(std::int64_t{100} << 30);

void range_attribute(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  CUdeviceptr pointer = 0;
  require(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  require(cuMemAdvise(pointer, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY,
                      CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}));
  for (auto _ : state) {
    int value = 0;
    require(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                   pointer, bytes));
    benchmark::DoNotOptimize(value);
  }
  require(cuMemFree(pointer));
}
BENCHMARK(range_attribute)->Arg(1 << 20)->Arg(std::int64_t{100} << 30);

void launch_and_wait(benchmark::State& state) {
  CUstream stream = nullptr;
  require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (auto _ : state) {
    require(wherryLaunchKernel(stream, do_nothing, nullptr, 0, 1));
    require(cuStreamSynchronize(stream));
  }
  require(cuStreamDestroy(stream));
}
BENCHMARK(launch_and_wait)->UseRealTime();

void launch_only(benchmark::State& state) {
  CUstream stream = nullptr;
  require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (auto _ : state) require(wherryLaunchKernel(stream, do_nothing, nullptr, 0, 1));
  require(cuStreamSynchronize(stream));
  require(cuStreamDestroy(stream));
}
BENCHMARK(launch_only)->Iterations(10'000)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  require(cuInit(0));
  CUcontext context = nullptr;
  require(cuDevicePrimaryCtxRetain(&context, 0));
  require(cuCtxSetCurrent(context));
  benchmark::RunSpecifiedBenchmarks();
}
