// With WHERRY_CUDA_API=12 and per-thread default streams, source names stand for older symbols.
#define WHERRY_CUDA_API 12
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>
#include <wherry/wherry.hpp>

#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <type_traits>

#include "support/catch.h"

#define TEXT_OF(name) #name
#define SYMBOL_OF(name) TEXT_OF(name)

static_assert(CUDA_VERSION / 1000 == 12);
static_assert(std::is_same_v<decltype(&cuCtxCreate), CUresult (*)(CUcontext*, unsigned, CUdevice)>);
static_assert(std::is_same_v<decltype(&cuMemAdvise),
                             CUresult (*)(CUdeviceptr, std::size_t, CUmem_advise, CUdevice)>);
static_assert(std::is_same_v<decltype(&cuMemAdvise_v2),
                             CUresult (*)(CUdeviceptr, std::size_t, CUmem_advise, CUmemLocation)>);

static_assert(CUDART_VERSION / 1000 == 12);
static_assert(std::is_same_v<decltype(&cudaMemAdvise),
                             cudaError_t (*)(const void*, std::size_t, cudaMemoryAdvise, int)>);

TEST_CASE("names of CUDA 12 stand for the symbols of CUDA 12", "[api]") {
  CHECK(std::string(SYMBOL_OF(cuCtxCreate)) == "cuCtxCreate_v2");
  CHECK(std::string(SYMBOL_OF(cuDeviceGetUuid)) == "cuDeviceGetUuid");
  CHECK(std::string(SYMBOL_OF(cuMemAdvise)) == "cuMemAdvise");
  CHECK(std::string(SYMBOL_OF(cuMemFree)) == "cuMemFree_v2");
  CHECK(std::string(SYMBOL_OF(cuStreamSynchronize)) == "cuStreamSynchronize_ptsz");
  CHECK(std::string(SYMBOL_OF(wherryLaunchKernel)) == "wherryLaunchKernel_ptsz");
  CHECK(std::string(SYMBOL_OF(wherryLaunch)) == "wherryLaunch_ptsz");
}

TEST_CASE("the NULL stream can be the calling thread's own", "[api]") {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, 0, 0) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAllocManaged(&pointer, 64, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  auto* flag = reinterpret_cast<volatile int*>(pointer);
  REQUIRE(wherryLaunchKernel(
              nullptr,
              [](const void* args, std::size_t, std::size_t) {
                volatile int* leave = *static_cast<volatile int* const*>(args);
                while (*leave == 0) std::this_thread::yield();
              },
              &flag, sizeof flag, 1) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  // The legacy stream includes every blocking stream, also a thread's own.
  CHECK(cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  std::thread([&] {
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(nullptr) == CUDA_SUCCESS);
  }).join();
  *flag = 1;
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CUuuid old_name{};
  CUuuid new_name{};
  CHECK(cuDeviceGetUuid(&old_name, 0) == CUDA_SUCCESS);
  CHECK(cuDeviceGetUuid_v2(&new_name, 0) == CUDA_SUCCESS);
  CHECK(cudaMallocManaged(reinterpret_cast<void**>(&pointer), 64) == cudaSuccess);
  const auto advise = [&](cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise(reinterpret_cast<void*>(pointer), 64, advice, device);
  };
  CHECK(advise(cudaMemAdviseSetReadMostly, 99) == cudaSuccess);
  CHECK(advise(cudaMemAdviseSetPreferredLocation, 99) == cudaErrorInvalidDevice);
  CHECK(advise(cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId) == cudaSuccess);
  int preferred = 0;
  CHECK(cuMemRangeGetAttribute(&preferred, sizeof preferred,
                               CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pointer,
                               64) == CUDA_SUCCESS);
  CHECK(preferred == CU_DEVICE_CPU);
  CHECK_NOTHROW(wherry::advise(std::span(reinterpret_cast<int*>(pointer), 16),
                               wherry::advice::set_preferred_location, wherry::host_node_current));
  CHECK(cudaFree(reinterpret_cast<void*>(pointer)) == cudaSuccess);
  CHECK(std::string(old_name.bytes, 16) == std::string(new_name.bytes, 16));
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}
