// Results of the functions of host memory for right and wrong arguments. Where a real driver's
// result was recorded, the test requires the same result.
#include <sys/mman.h>
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <cstdlib>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::host_memory_test {

namespace {

constexpr std::size_t KB = 1024;

const Session& session() {
  static const Session the_session("capacity=64M;capacity=32M");
  return the_session;
}

CUdeviceptr address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

void* allocate(std::size_t bytes, unsigned flags) {
  void* memory = nullptr;
  REQUIRE(cuMemHostAlloc(&memory, bytes, flags) == CUDA_SUCCESS);
  return memory;
}

unsigned flags_of(void* pointer) {
  unsigned flags = 0xA5A5;
  cuMemHostGetFlags(&flags, pointer);
  return flags;
}

// Returns 0 if the function refuses the pointer.
CUdeviceptr device_pointer(void* pointer, unsigned flags = 0) {
  CUdeviceptr result = 0xA5A5;
  const CUresult answer = cuMemHostGetDevicePointer(&result, pointer, flags);
  CHECK(answer == (result == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
  return result;
}

template <typename T>
T attribute(CUpointer_attribute which, const void* pointer) {
  T value{};
  WHERRY_TRY(cuPointerGetAttribute(&value, which, address(pointer)));
  return value;
}

}  // namespace

TEST_CASE("functions of host memory need an initialized library, and all but freeing a context",
          "[api]") {
  void* memory = nullptr;
  CUdeviceptr pointer = 0;
  unsigned flags = 0;
  const auto answers = [&](CUresult wanted) {
    return cuMemAllocHost(&memory, 4096) == wanted && cuMemHostAlloc(&memory, 4096, 0) == wanted &&
           cuMemHostGetDevicePointer(&pointer, memory, 0) == wanted &&
           cuMemHostGetFlags(&flags, memory) == wanted &&
           cuMemHostRegister(&memory, 4096, 0) == wanted;
  };
  CHECK(answers(CUDA_ERROR_NOT_INITIALIZED));
  CHECK(cuMemFreeHost(nullptr) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuMemHostUnregister(&memory) == CUDA_ERROR_NOT_INITIALIZED);
  session();
  CUcontext context = nullptr;
  WHERRY_TRY(cuCtxPopCurrent(&context));
  CHECK(answers(CUDA_ERROR_INVALID_CONTEXT));
  CHECK(cuMemFreeHost(nullptr) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(&memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  WHERRY_TRY(cuCtxPushCurrent(context));
}

TEST_CASE("host memory is allocated with known flags and a size above zero", "[api]") {
  session();
  void* memory = &memory;
  CHECK(cuMemHostAlloc(nullptr, 4096, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostAlloc(&memory, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(memory == nullptr);
  CHECK(cuMemHostAlloc(&memory, 4096, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocHost(&memory, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostAlloc(&memory, std::size_t{1} << 60, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  for (unsigned flags = 0; flags < 8; ++flags) {
    void* fine = allocate(64 * KB, flags);
    // Like a real driver, reports DEVICEMAP always and PORTABLE never.
    CHECK(flags_of(fine) == ((flags & CU_MEMHOSTALLOC_WRITECOMBINED) | CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemFreeHost(fine) == CUDA_SUCCESS);
  }
}

TEST_CASE("each kind of memory is freed by its own function, by its first address", "[api]") {
  session();
  CHECK(cuMemFreeHost(nullptr) == CUDA_SUCCESS);
  void* memory = allocate(64 * KB, 0);
  CHECK(cuMemFree(address(memory)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(static_cast<char*>(memory) + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(memory) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(flags_of(memory) == 0xA5A5);

  CUdeviceptr managed = 0;
  WHERRY_TRY(cuMemAllocManaged(&managed, 64 * KB, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemFreeHost(reinterpret_cast<void*>(managed)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(reinterpret_cast<void*>(managed), 64 * KB, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(flags_of(reinterpret_cast<void*>(managed + 100)) == 2);
  CHECK(device_pointer(reinterpret_cast<void*>(managed)) == 0);
  WHERRY_TRY(cuMemFree(managed));
  CUdeviceptr own = 0;
  WHERRY_TRY(cuMemAlloc(&own, 64 * KB));
  CHECK(flags_of(reinterpret_cast<void*>(own)) == 0xA5A5);
  CHECK(device_pointer(reinterpret_cast<void*>(own)) == 0);
  WHERRY_TRY(cuMemFree(own));
  void* unknown = std::malloc(100);
  CHECK(cuMemFreeHost(unknown) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(unknown) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(device_pointer(unknown) == 0);
  std::free(unknown);
  CHECK(device_pointer(nullptr) == 0);
}

TEST_CASE("small allocations of host memory are adjacent in one mapping", "[api]") {
  session();
  char* first = static_cast<char*>(allocate(64 * KB, 0));
  char* second = static_cast<char*>(allocate(64 * KB, CU_MEMHOSTALLOC_PORTABLE));
  REQUIRE(second == first + 64 * KB);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, second) == 2048 * KB);
  CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, second) == first);
  CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, second + 5) == second);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, second) == CU_MEMORYTYPE_HOST);
  CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, second + 5) == second + 5);
  CHECK(device_pointer(second + 5) == address(second + 5));
  CHECK(device_pointer(second, 1) == 0);
  CHECK(device_pointer(second, 2) == 0);
  CHECK(cuMemHostGetDevicePointer(nullptr, second, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostGetFlags(nullptr, second) == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemFreeHost(first));
  WHERRY_TRY(cuMemFreeHost(second));
}

TEST_CASE("write-combined and registered memory are known by both of their addresses", "[api]") {
  session();
  void* apart = allocate(64 * KB, CU_MEMHOSTALLOC_WRITECOMBINED);
  void* ours = ::mmap(nullptr, 64 * KB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WHERRY_TRY(cuMemHostRegister(ours, 64 * KB, 0));
  for (char* here : {static_cast<char*>(apart), static_cast<char*>(ours)}) {
    char* there = reinterpret_cast<char*>(device_pointer(here));
    REQUIRE(there != here);
    for (char* pointer : {here, there}) {
      CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer + 100) == here + 100);
      CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer + 100) == there + 100);
      CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CU_MEMORYTYPE_HOST);
      CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer + 7) == pointer);
      CHECK(attribute<void*>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, pointer + 7) == pointer);
    }
  }
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, ours) == 64 * KB);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, apart) == 2048 * KB);
  CHECK(cuMemFree(address(ours)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(ours) == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemHostUnregister(ours));
  WHERRY_TRY(cuMemFreeHost(apart));
  ::munmap(ours, 64 * KB);
  int value = -1;
  WHERRY_TRY(
      cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0));
  CHECK(value == 0);
}

TEST_CASE("registering needs memory that exists and is not registered yet", "[api]") {
  session();
  char* memory = static_cast<char*>(
      ::mmap(nullptr, 64 * KB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(cuMemHostRegister(nullptr, 4096, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(memory, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(memory, SIZE_MAX, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(memory, 4096, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostRegister(memory, 4096, CU_MEMHOSTREGISTER_IOMEMORY) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemHostUnregister(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(memory) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);

  REQUIRE(cuMemHostRegister(memory + 4100, 8 * KB, 3) == CUDA_SUCCESS);
  CHECK(flags_of(memory + 5000) == 3);
  for (const std::size_t offset : {std::size_t{4091}, 8 * KB, 12 * KB})
    CHECK(cuMemHostRegister(memory + offset, 10, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  // The bytes right before and behind the registered ones, in the same pages, are free.
  for (const std::size_t offset : {std::size_t{4090}, 12 * KB + 4}) {
    CHECK(cuMemHostRegister(memory + offset, 10, 0) == CUDA_SUCCESS);
    CHECK(flags_of(memory + offset) == CU_MEMHOSTREGISTER_DEVICEMAP);
    CHECK(cuMemHostUnregister(memory + offset) == CUDA_SUCCESS);
    CHECK(flags_of(memory + 5000) == 3);
  }
  CHECK(cuMemHostRegister(memory, 64 * KB, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(cuMemHostRegister(memory + 16 * KB, 16 * KB, 0) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(memory + 4101) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemHostUnregister(memory + 4096) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(cuMemHostUnregister(memory + 4100) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(memory + 16 * KB) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(memory + 16 * KB) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  void* host = allocate(4096, 0);
  CHECK(cuMemHostRegister(host, 4096, 0) == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemFreeHost(host));
  ::munmap(memory, 64 * KB);
}

TEST_CASE("the runtime API's functions of host memory are those of the driver API", "[api]") {
  session();
  void* memory = &memory;
  CHECK(cudaMallocHost(nullptr, 4096) == cudaErrorInvalidValue);
  CHECK(cudaMallocHost(&memory, 0) == cudaSuccess);
  CHECK(memory == nullptr);
  REQUIRE(cudaMallocHost(&memory, 4096) == cudaSuccess);
  unsigned flags = 0;
  void* theirs = nullptr;
  CHECK(cudaHostGetFlags(&flags, memory) == cudaSuccess);
  CHECK(flags == cudaHostAllocMapped);
  CHECK(cudaHostGetDevicePointer(&theirs, memory, 0) == cudaSuccess);
  CHECK(theirs == memory);
  CHECK(cudaHostGetDevicePointer(&theirs, memory, 1) == cudaErrorInvalidValue);
  CHECK(theirs == nullptr);
  CHECK(cudaFreeHost(memory) == cudaSuccess);
  CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(nullptr) == cudaSuccess);
  REQUIRE(cudaHostAlloc(&memory, 4096, cudaHostAllocWriteCombined) == cudaSuccess);
  CHECK(cudaFreeHost(memory) == cudaSuccess);
  void* own = std::malloc(10'000);
  CHECK(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
  CHECK(cudaHostRegister(own, 10'000, cudaHostRegisterMapped) == cudaSuccess);
  CHECK(cudaHostRegister(own, 10'000, 0) == cudaErrorHostMemoryAlreadyRegistered);
  CHECK(cudaHostUnregister(own) == cudaSuccess);
  std::free(own);
}

}  // namespace wherry::test::host_memory_test
