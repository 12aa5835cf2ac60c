// The unsuffixed symbols, as programs call them that were linked long ago.
#include "api/exports.h"

#include <catch2/catch.hpp>
#include <cstdlib>

TEST_CASE("unsuffixed symbols have their oldest signatures", "[api]") {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  unsigned small = 0;
  CHECK(cuMemFree(CUdeviceptr_v1{0}) == CUDA_ERROR_NOT_INITIALIZED);
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDeviceTotalMem(&small, 0) == CUDA_SUCCESS);
  CHECK(small == 64u << 20);
  CHECK(cuDeviceTotalMem(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);

  CUcontext context = nullptr;
  CUcontext popped = nullptr;
  REQUIRE(cuCtxCreate(&context, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(popped == context);
  CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS);
  unsigned free_bytes = 0;
  CHECK(cuMemGetInfo(&free_bytes, &small) == CUDA_SUCCESS);
  CHECK(small == 64u << 20);
  CHECK(free_bytes <= small);
  CHECK(cuMemGetInfo(nullptr, &small) == CUDA_ERROR_INVALID_VALUE);

  CHECK(cuMemFree(CUdeviceptr_v1{0}) == CUDA_SUCCESS);
  CHECK(cuMemFree(CUdeviceptr_v1{0x10000}) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr_v1 base = 1;
  CHECK(cuMemGetAddressRange(&base, &small, 0x10000) == CUDA_ERROR_NOT_FOUND);
  CHECK(base == 0);
  CHECK(small == 0);

  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);

  CUexecAffinityParam affinity{CU_EXEC_AFFINITY_TYPE_SM_COUNT, {{1}}};
  CHECK(cuCtxCreate_v3(&context, nullptr, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
  CHECK(cuCtxCreate_v3(&context, &affinity, 1, 0, 0) == CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  CHECK(cuCtxCreate_v3(&context, nullptr, 1, 0, 0) == CUDA_ERROR_INVALID_VALUE);

  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
}
