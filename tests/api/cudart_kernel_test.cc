// Kernels through the runtime API: of the program itself, of libraries that it loads, and of
// cudaLibrary_t.
#include <unistd.h>

#include <wherry/cuda_runtime_api.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "api/grid_module.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/loaded_object.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {
namespace {

constexpr std::size_t page = 4096;
const Session& session() {
  static const Session instance{"capacity=64M,workers=2;capacity=64M"};
  return instance;
}

// What fill() reports about its launch.
struct Report {
  std::atomic<std::size_t> threads;
  pid_t process;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  int number;
};

}  // namespace

// A kernel of this program.
extern "C" void fill(const wherryLaunchInfo* info, void** params) {
  Report& report = **static_cast<Report**>(params[0]);
  report.threads += info->end - info->begin;
  if (info->begin != 0) return;
  report.process = ::getpid();
  std::memcpy(report.grid, info->gridDim, sizeof report.grid);
  std::memcpy(report.block, info->blockDim, sizeof report.block);
  report.shared_bytes = info->sharedMemBytes;
  report.number = *static_cast<int*>(params[1]);
}
WHERRY_KERNEL_PARAMS(fill, sizeof(Report*), sizeof(int));

// Ends when the host sets the flag, or after ten seconds.
extern "C" void wait_for_go(const wherryLaunchInfo*, void** params) {
  const std::atomic<int>& go = **static_cast<std::atomic<int>**>(params[0]);
  for (int i = 0; i < 10'000 && go == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
WHERRY_KERNEL_PARAMS(wait_for_go, sizeof(void*));

// The symbols that programs call if they are compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM.
extern "C" cudaError_t cudaLaunchKernel_ptsz(const void* func, dim3 gridDim, dim3 blockDim,
                                             void** args, size_t sharedMem, cudaStream_t stream);
extern "C" cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* func,
                                                void** args);

// Not a kernel: it is not declared as one.
extern "C" void undeclared(const wherryLaunchInfo*, void**) {}

namespace {

// Not a kernel: it has no exported name.
void unnamed(const wherryLaunchInfo*, void**) {}

const void* address_of_fill() {
  return reinterpret_cast<const void*>(&fill);
}

int no_function = 0;

}  // namespace

// The first test: this process has not started the library yet.
TEST_CASE("the first launch of a thread gives it a context") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
    void* memory = nullptr;
    expect(cudaMallocManaged(&memory, sizeof(Report)) == cudaSuccess, "cudaMallocManaged");
    std::thread([&] {
      int number = 9;
      void* args[] = {&memory, &number};
      expect(cudaLaunchKernel(address_of_fill(), dim3(1), dim3(1), args, 0, cudaStreamPerThread) ==
                 cudaSuccess,
             "cudaLaunchKernel");
      expect(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess, "cudaStreamSynchronize");
    }).join();
    expect(static_cast<Report*>(memory)->number == 9, "the kernel did not run");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a function of the program is a kernel by its address") {
  session();
  const Managed<Report> report{1};
  Report* out = report.data();
  int number = 42;
  void* args[] = {&out, &number};
  CHECK(cudaLaunchKernel(address_of_fill(), dim3(3, 2), dim3(4, 1, 5), args, 77, nullptr) ==
        cudaSuccess);
  number = 0;  // the argument was copied at the launch
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(report[0].threads == 3 * 2 * 4 * 5);
  CHECK(report[0].process == device_process(0));
  const unsigned grid[] = {3, 2, 1};
  const unsigned block[] = {4, 1, 5};
  CHECK(std::memcmp(report[0].grid, grid, sizeof grid) == 0);
  CHECK(std::memcmp(report[0].block, block, sizeof block) == 0);
  CHECK(report[0].shared_bytes == 77);
  CHECK(report[0].number == 42);

  // Uses the stream's device, through the driver API's handles.
  number = 43;
  cudaLaunchConfig_t config{dim3(2), dim3(8), 0, session().stream(1), nullptr, 0};
  CHECK(cudaLaunchKernelExC(&config, address_of_fill(), args) == cudaSuccess);
  CHECK(cudaStreamSynchronize(session().stream(1)) == cudaSuccess);
  CHECK(report[0].process == device_process(1));
  CHECK(report[0].number == 43);
  cudaKernel_t kernel = nullptr;
  cudaKernel_t again = nullptr;
  CHECK(cudaGetKernel(&kernel, address_of_fill()) == cudaSuccess);
  CHECK(cudaGetKernel(&again, address_of_fill()) == cudaSuccess);
  CHECK(kernel == again);
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(1), args, 0, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(report[0].process == device_process(0));
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, address_of_fill()) == cudaSuccess);
  number = 44;
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr) == CUDA_SUCCESS);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(report[0].number == 44);
  CHECK(cudaGetKernel(nullptr, address_of_fill()) == cudaErrorInvalidValue);
  CHECK(cudaGetFuncBySymbol(nullptr, address_of_fill()) == cudaErrorInvalidValue);
}

TEST_CASE("a function that is not exported and declared is no kernel") {
  session();
  const Managed<char> memory{page};
  const void* const others[] = {nullptr,
                                &no_function,
                                reinterpret_cast<const void*>(64),
                                memory.data(),
                                session().stream(0),
                                reinterpret_cast<const void*>(&unnamed),
                                reinterpret_cast<const void*>(&undeclared),
                                reinterpret_cast<const std::byte*>(&fill) + 1,
                                reinterpret_cast<const void*>(&::getpid)};
  for (const void* other : others) {
    INFO(other);
    cudaKernel_t kernel = nullptr;
    CHECK(cudaGetKernel(&kernel, other) == cudaErrorInvalidDeviceFunction);
    CHECK(kernel == nullptr);
    CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
    CHECK(cudaLaunchKernel(other, dim3(1), dim3(1), nullptr, 0, nullptr) ==
          cudaErrorInvalidDeviceFunction);
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, other) == cudaErrorInvalidDeviceFunction);
  }
}

TEST_CASE("launches that are invalid for every device are refused, each with its own code") {
  session();
  int number = 0;
  Report* out = nullptr;
  void* args[] = {&out, &number};
  const auto launch = [&](dim3 grid, dim3 block, std::size_t shared = 0) {
    return cudaLaunchKernel(address_of_fill(), grid, block, args, shared, nullptr);
  };
  CHECK(launch(dim3(0), dim3(1)) == cudaErrorInvalidConfiguration);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1), dim3(1, 0)) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1), dim3(1025)) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1), dim3(64, 32)) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1, 65536), dim3(1)) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(1), dim3(1), std::size_t{1} << 32) == cudaErrorInvalidValue);
  const auto no_stream = reinterpret_cast<cudaStream_t>(0x77);
  CHECK(cudaLaunchKernel(address_of_fill(), dim3(1), dim3(1), args, 0, no_stream) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaLaunchKernelExC(nullptr, address_of_fill(), args) == cudaErrorInvalidValue);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  cudaLaunchConfig_t config{dim3(1), dim3(1), 0, nullptr, &attribute, 1};
  CHECK(cudaLaunchKernelExC(&config, address_of_fill(), args) == cudaErrorNotSupported);
  config.attrs = nullptr;
  CHECK(cudaLaunchKernelExC(&config, address_of_fill(), args) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

TEST_CASE("the NULL stream is the thread's own in programs that are compiled that way") {
  session();
  const auto* const kernel = reinterpret_cast<const void*>(&wait_for_go);
  for (const bool extended : {false, true}) {
    const Managed<std::atomic<int>> go{1};
    go[0] = 0;
    std::atomic<int>* out = go.data();
    void* args[] = {&out};
    const cudaLaunchConfig_t config{dim3(1), dim3(1), 0, nullptr, nullptr, 0};
    CHECK((extended
               ? cudaLaunchKernelExC_ptsz(&config, kernel, args)
               : cudaLaunchKernel_ptsz(kernel, dim3(1), dim3(1), args, 0, nullptr)) == cudaSuccess);
    CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
    // The legacy stream includes every blocking stream, also a thread's own.
    CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);
    go[0] = 1;
    CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  }
}

TEST_CASE("a kernel of a library that the program loads while devices run") {
  if (is_sanitized) {
    WARN("skipped under sanitizers: their memory in a device may occupy the library's addresses");
    return;
  }
  session();
  LoadedObject object(WHERRY_GRID_MODULE);
  const auto report = object.symbol<const void*>("report");
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  signed char small = -3;
  Large large{};
  large.values[19] = 1234;  // more bytes than the fallback size: the declaration was found
  int number = 77;
  void* args[] = {&out, &small, &large, &number};
  for (int device : {0, 1}) {
    seen[0].numbers[1] = 0;
    CHECK(cudaLaunchKernel(report, dim3(5), dim3(6), args, 0, session().stream(device)) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(session().stream(device)) == cudaSuccess);
    CHECK(seen[0].numbers[0] == -3);
    CHECK(seen[0].numbers[1] == 1234);
    CHECK(seen[0].numbers[2] == 77);
  }
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, report) == cudaSuccess);
  CHECK(std::string(name) == "report");
  std::size_t offset = 0;
  std::size_t size = 0;
  CHECK(cudaFuncGetParamInfo(report, 3, &offset, &size) == cudaSuccess);
  CHECK(offset == 176);
  CHECK(size == sizeof(int));
  // The object stays loaded after close().
  object.close();
  number = 78;
  CHECK(cudaLaunchKernel(report, dim3(1), dim3(1), args, 0, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(seen[0].numbers[2] == 78);
}

TEST_CASE("libraries, kernels and variables through the runtime API") {
  session();
  cudaLibrary_t library = nullptr;
  CHECK(cudaLibraryLoadFromFile(&library, "/nonexistent", nullptr, nullptr, 0, nullptr, nullptr,
                                0) == cudaErrorFileNotFound);
  CHECK(cudaLibraryLoadData(&library, "what", nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        cudaErrorInvalidKernelImage);
  CHECK(cudaLibraryLoadFromFile(&library, WHERRY_GRID_MODULE, nullptr, nullptr, 0, nullptr, nullptr,
                                0) == cudaSuccess);
  cudaKernel_t kernel = nullptr;
  CHECK(cudaLibraryGetKernel(&kernel, library, "nothing") == cudaErrorSymbolNotFound);
  CHECK(cudaLibraryGetKernel(&kernel, library, "touch") == cudaSuccess);
  void* variable = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaLibraryGetManaged(&variable, &bytes, library, "managed") == cudaSuccess);
  CHECK(bytes == 16384);
  void* same = nullptr;
  CHECK(cudaLibraryGetGlobal(&same, nullptr, library, "managed") == cudaSuccess);
  CHECK(same == variable);
  CHECK(cudaLibraryGetGlobal(&same, nullptr, library, "nothing") == cudaErrorSymbolNotFound);
  void* function = nullptr;
  CHECK(cudaLibraryGetUnifiedFunction(&function, library, "touch") == cudaSuccess);
  CHECK(function != nullptr);

  std::uint32_t pages = 4;
  std::uint32_t mode = 1;
  void* args[17] = {&variable, &pages, &mode};
  const Witness witness;
  for (int device : {1, 0}) {
    CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(2), args, 0, session().stream(device)) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(session().stream(device)) == cudaSuccess);
    CHECK(witness.residents(variable) == bit_of(device));
  }
  CHECK(cudaLibraryUnload(library) == cudaSuccess);
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(2), args, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaLibraryUnload(library) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("attributes and occupancy of a kernel are those of the driver API") {
  session();
  const void* const kernel = address_of_fill();
  cudaFuncAttributes attributes{};
  attributes.numRegs = 77;
  CHECK(cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess);
  CHECK(attributes.maxThreadsPerBlock == 1024);
  CHECK(attributes.binaryVersion == 90);
  CHECK(attributes.ptxVersion == 90);
  CHECK(attributes.numRegs == 0);
  CHECK(attributes.sharedSizeBytes == 0);
  CHECK(cudaFuncGetAttributes(nullptr, kernel) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096) ==
        cudaSuccess);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMax, 1) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1) == cudaSuccess);
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, kernel) == cudaSuccess);
  CHECK(std::string(name) == "fill");

  // Searches a block size like the toolkit's templates.
  int blocks = -1;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, kernel, attributes.maxThreadsPerBlock, 0) == cudaSuccess);
  CHECK(blocks == 1);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, kernel, 1025, 0, cudaOccupancyDefault) == cudaSuccess);
  CHECK(blocks == 0);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, 32, 0, 8) ==
        cudaErrorInvalidValue);
  std::size_t bytes = 7;
  CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 64) == cudaSuccess);
  CHECK(bytes == 0);
}

}  // namespace wherry::test
