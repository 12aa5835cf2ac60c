// cudaDeviceProp agrees with cuDeviceGetAttribute; and small queries that programs make at their
// start.
#include <wherry/cuda_runtime_api.h>
#include <cstring>
#include <string>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::cudart_properties_test {
namespace {

const Session& session() {
  static const Session instance{"capacity=64M,workers=2;capacity=32M,workers=5,concurrent=0"};
  return instance;
}

cudaDeviceProp properties_of(int device) {
  session();
  cudaDeviceProp properties;
  std::memset(&properties, 0xee, sizeof properties);
  expect(cudaGetDeviceProperties(&properties, device) == cudaSuccess, "cudaGetDeviceProperties");
  return properties;
}

int attribute_of(CUdevice_attribute attribute, int device) {
  int value = -77;
  WHERRY_TRY(cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

}  // namespace

TEST_CASE("properties of a device are its attributes") {
  for (int device : {0, 1}) {
    const cudaDeviceProp properties = properties_of(device);
    INFO("device " << device);
    char name[256];
    WHERRY_TRY(cuDeviceGetName(name, sizeof name, device));
    CHECK(std::string(properties.name) == name);
    CUuuid uuid;
    WHERRY_TRY(cuDeviceGetUuid(&uuid, device));
    CHECK(std::memcmp(&properties.uuid, &uuid, sizeof uuid) == 0);
    CHECK(properties.totalGlobalMem == (device == 0 ? 64u << 20 : 32u << 20));
    CHECK(properties.multiProcessorCount == (device == 0 ? 2 : 5));
    CHECK(properties.managedMemory == 1);
    CHECK(properties.concurrentManagedAccess == (device == 0 ? 1 : 0));
    CHECK(properties.unifiedAddressing == 1);
    CHECK(properties.pciDeviceID == device);
    CHECK(properties.luidDeviceNodeMask == 0);
    for (int i = 8; i < 56; ++i) CHECK(properties.reserved[i] == 0);

    const auto is = [&](long long value, CUdevice_attribute attribute) {
      INFO("attribute " << attribute);
      CHECK(value == attribute_of(attribute, device));
    };
    is(properties.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    is(properties.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    is(properties.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    is(properties.reserved[0], CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    is(properties.reserved[2], CU_DEVICE_ATTRIBUTE_GPU_OVERLAP);
    is(static_cast<long long>(properties.memPitch), CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    is(properties.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    is(properties.maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    is(properties.maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    is(static_cast<long long>(properties.textureAlignment), CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    is(properties.maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    is(properties.maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    is(properties.pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    is(properties.directManagedMemAccessFromHost,
       CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
    is(properties.canUseHostPointerForRegisteredMem,
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    is(properties.hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
    is(properties.memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
    is(properties.memoryPoolSupportedHandleTypes,
       CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
    is(properties.ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
    is(properties.cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
    is(properties.deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
    is(properties.deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID);
    is(properties.hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    is(properties.multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
  }
}

TEST_CASE("an invalid query for properties is an error, and nothing is written") {
  session();
  cudaDeviceProp properties;
  std::memset(&properties, 0xee, sizeof properties);
  CHECK(cudaGetDeviceProperties(&properties, 2) == cudaErrorInvalidDevice);
  CHECK(cudaGetDeviceProperties(&properties, -1) == cudaErrorInvalidDevice);
  CHECK(properties.multiProcessorCount == static_cast<int>(0xeeeeeeee));
  CHECK(cudaGetDeviceProperties(nullptr, 0) == cudaErrorInvalidValue);
}

TEST_CASE("the device that has most of the requested properties is chosen") {
  session();
  const auto choose = [](const cudaDeviceProp& asked) {
    int device = -1;
    expect(cudaChooseDevice(&device, &asked) == cudaSuccess, "cudaChooseDevice");
    return device;
  };
  cudaDeviceProp asked{};
  CHECK(choose(asked) == 0);
  asked.multiProcessorCount = 4;
  CHECK(choose(asked) == 1);
  asked.totalGlobalMem = 48 << 20;  // each device has one
  CHECK(choose(asked) == 0);
  asked.multiProcessorCount = 0;
  CHECK(choose(asked) == 0);
  asked.multiProcessorCount = 2;
  asked.concurrentManagedAccess = 1;
  CHECK(choose(asked) == 0);
  CHECK(choose(properties_of(0)) == 0);
  int device = -1;
  CHECK(cudaChooseDevice(nullptr, &asked) == cudaErrorInvalidValue);
  CHECK(cudaChooseDevice(&device, nullptr) == cudaErrorInvalidValue);
  CHECK(device == -1);
}

TEST_CASE("the old functions for properties that have no attributes") {
  session();
  CUdevprop properties{};
  CHECK(cuDeviceGetProperties(&properties, 1) == CUDA_SUCCESS);
  CHECK(properties.maxThreadsPerBlock == 1024);
  CHECK(properties.maxThreadsDim[2] == 64);
  CHECK(properties.maxGridSize[1] == 65535);
  CHECK(properties.SIMDWidth == 32);
  CHECK(properties.textureAlign == 512);
  CHECK(cuDeviceGetProperties(&properties, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuDeviceGetProperties(nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  int supported = -1;
  CHECK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 1) ==
        CUDA_SUCCESS);
  CHECK(supported == 0);
  CHECK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_MAX, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 2) ==
        CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("cudaMemGetInfo returns the free memory of the current device") {
  session();
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(total == 64 << 20);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 8 << 20) == cudaSuccess);
  std::size_t less = 0;
  CHECK(cudaMemGetInfo(&less, &total) == cudaSuccess);
  CHECK(less + (8 << 20) <= free);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaMemGetInfo(nullptr, &total) == cudaErrorInvalidValue);
}

TEST_CASE("the runtime API's streams are not captured either") {
  session();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  CHECK(cudaStreamGetCaptureInfo(session().stream(0), &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(cudaStreamGetCaptureInfo(session().stream(0), nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamGetCaptureInfo(reinterpret_cast<cudaStream_t>(0x77), &status) ==
        cudaErrorInvalidResourceHandle);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  CHECK(cudaThreadExchangeStreamCaptureMode(nullptr) == cudaErrorInvalidValue);
}

}  // namespace wherry::test::cudart_properties_test
