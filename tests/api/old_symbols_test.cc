// The unsuffixed symbols, as old binaries call them.
#include "api/exports.h"

#include <cstdlib>

#include "support/catch.h"

namespace wherry::test::old_symbols_test {

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

  CUdeviceptr_v1 nowhere = 1;
  CHECK(cuMemAlloc(&nowhere, 4096) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(nowhere == 0);
  CHECK_THAT(
      wherryGetLastErrorMessage(),
      Catch::Matchers::StartsWith("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY") &&
          Catch::Matchers::ContainsSubstring("fits into the 32 bits of this old variant; compile"));
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

TEST_CASE("old cuMemAdvise names a device by its number, and the device must exist", "[api]") {
  ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, 0, 0) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  const auto advise = [&](CUmem_advise advice, CUdevice device) {
    return cuMemAdvise(pointer, 4096, advice, device);
  };
  const auto attribute = [&](CUmem_range_attribute which) {
    int value = 0;
    CHECK(cuMemRangeGetAttribute(&value, sizeof value, which, pointer, 4096) == CUDA_SUCCESS);
    return value;
  };
  for (const CUdevice invalid : {-2, 1, 99}) {
    CHECK(advise(CU_MEM_ADVISE_SET_READ_MOSTLY, invalid) == CUDA_SUCCESS);
    CHECK(advise(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, invalid) == CUDA_SUCCESS);
    CHECK(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, invalid) == CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(cuMemAdvise(CUdeviceptr{0}, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, 99) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU) == CUDA_SUCCESS);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION) == CU_DEVICE_CPU);
  CHECK(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 0) == CUDA_SUCCESS);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) == 0);
  CHECK(advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0) == CUDA_SUCCESS);
  CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) == CU_DEVICE_INVALID);
  CHECK(cuMemFree_v2(pointer) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

}  // namespace wherry::test::old_symbols_test
