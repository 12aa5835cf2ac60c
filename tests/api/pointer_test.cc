// Attributes of pointers. Where a real driver's result was recorded, the test requires the same
// result.
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::pointer_test {

namespace {

constexpr std::size_t KB = 1024;
constexpr std::size_t MB = 1024 * KB;
constexpr unsigned char poison = 0xA5;

const Session& session() {
  static const Session the_session("capacity=64M;capacity=32M");
  return the_session;
}

class Memory {
 public:
  explicit Memory(std::size_t bytes) {
    session();
    WHERRY_TRY(cuMemAllocManaged(&pointer_, bytes, CU_MEM_ATTACH_GLOBAL));
  }
  ~Memory() { cuMemFree(pointer_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  operator CUdeviceptr() const { return pointer_; }

 private:
  CUdeviceptr pointer_ = 0;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    session();
    WHERRY_TRY(cuMemAlloc(&pointer_, bytes));
  }
  ~DeviceMemory() { cuMemFree(pointer_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  operator CUdeviceptr() const { return pointer_; }

 private:
  CUdeviceptr pointer_ = 0;
};

// A result, and how many bytes of it were written.
struct Answer {
  CUresult result;
  std::size_t written;
  std::uint64_t value;
};
Answer ask(CUpointer_attribute attribute, CUdeviceptr pointer) {
  std::array<unsigned char, 64> data;
  data.fill(poison);
  Answer answer{};
  answer.result = cuPointerGetAttribute(data.data(), attribute, pointer);
  answer.written = data.size();
  while (answer.written > 0 && data[answer.written - 1] == poison) --answer.written;
  std::memcpy(&answer.value, data.data(), std::min<std::size_t>(answer.written, 8));
  return answer;
}
std::uint64_t value(CUpointer_attribute attribute, CUdeviceptr pointer) {
  const Answer answer = ask(attribute, pointer);
  CHECK(answer.result == CUDA_SUCCESS);
  return answer.value;
}

}  // namespace

TEST_CASE("all attributes of managed memory, also for a pointer inside it") {
  const std::size_t bytes = 2 * MB + 64 * KB;
  const Memory memory(bytes);
  for (const CUdeviceptr at : {CUdeviceptr{memory}, memory + 4100, memory + bytes - 1}) {
    CHECK(value(CU_POINTER_ATTRIBUTE_CONTEXT, at) ==
          reinterpret_cast<std::uintptr_t>(session().context(0)));
    CHECK(value(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CU_MEMORYTYPE_DEVICE);
    CHECK(value(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at) == at);
    CHECK(value(CU_POINTER_ATTRIBUTE_HOST_POINTER, at) == at);
    CHECK(value(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at) == 1);
    CHECK(value(CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == 1);
    CHECK(value(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) == 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at) == 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) == memory);
    CHECK(value(CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) == bytes);
    CHECK(value(CU_POINTER_ATTRIBUTE_MAPPED, at) == 1);
    CHECK(value(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at) == 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at) == 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at) == 3);
    CHECK(value(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at) == 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) == memory);
    CHECK(value(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) == 4 * MB);
    CHECK(value(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, at) != 0);
    CHECK(value(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, at) == 0);
  }
  CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + bytes).result == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("each attribute is written in its own size, and no byte beyond it") {
  const Memory memory(64 * KB);
  const std::set<int> wide{CU_POINTER_ATTRIBUTE_CONTEXT,
                           CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                           CU_POINTER_ATTRIBUTE_HOST_POINTER,
                           CU_POINTER_ATTRIBUTE_BUFFER_ID,
                           CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                           CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                           CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                           CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                           CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                           CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                           CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
  for (int attribute = 1; attribute <= 21; ++attribute) {
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;
    INFO("attribute " << attribute);
    CHECK(ask(static_cast<CUpointer_attribute>(attribute), memory).written ==
          (wide.contains(attribute) ? 8u : 4u));
  }
}

TEST_CASE("device memory has no host address, and belongs to the context that allocated it") {
  const DeviceMemory memory(64 * KB);
  const Answer host = ask(CU_POINTER_ATTRIBUTE_HOST_POINTER, memory + 1);
  CHECK(host.result == CUDA_ERROR_INVALID_VALUE);
  CHECK(host.written == 8);
  CHECK(host.value == 0);
  CHECK(value(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory + 1) == memory + 1);
  CHECK(value(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory) == 0);
  CHECK(value(CU_POINTER_ATTRIBUTE_IS_MANAGED, memory) == 0);
  CHECK(value(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory) == 1);
  CHECK(value(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, memory) == 1);

  WHERRY_TRY(cuCtxSetCurrent(session().context(1)));
  {
    const DeviceMemory other(64 * KB);
    CHECK(value(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, other) == 1);
    CHECK(value(CU_POINTER_ATTRIBUTE_CONTEXT, other) ==
          reinterpret_cast<std::uintptr_t>(session().context(1)));
    CHECK(value(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory) == 0);
  }
  WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
}

TEST_CASE("unknown or freed memory has no attribute") {
  CUdeviceptr freed = 0;
  {
    const Memory memory(4 * MB);
    freed = memory;
  }
  int local = 0;
  for (const CUdeviceptr pointer :
       {CUdeviceptr{0}, CUdeviceptr{0x1000}, ~CUdeviceptr{0}, freed,
        static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(&local))})
    for (int attribute = -1; attribute <= 25; ++attribute) {
      INFO("attribute " << attribute << " of " << std::hex << pointer);
      const Answer answer = ask(static_cast<CUpointer_attribute>(attribute), pointer);
      CHECK(answer.result == CUDA_ERROR_INVALID_VALUE);
      CHECK(answer.written == 0);
    }
}

TEST_CASE("wrong attributes and null result pointers are refused") {
  const Memory memory(64 * KB);
  for (const int attribute : {-1, 0, 22, 99}) {
    const Answer answer = ask(static_cast<CUpointer_attribute>(attribute), memory);
    CHECK(answer.result == CUDA_ERROR_INVALID_VALUE);
    CHECK(answer.written == 0);
  }
  CHECK(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_CONTEXT, memory) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a device pointer needs a current context, other attributes do not") {
  const Memory memory(64 * KB);
  std::thread([&] {
    CHECK(ask(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, memory).result == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory).result == CUDA_SUCCESS);
  }).join();
}

TEST_CASE("buffer ids increase, and are never reused") {
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    const Memory memory(64 * KB);
    const std::uint64_t id = value(CU_POINTER_ATTRIBUTE_BUFFER_ID, memory + 5000);
    CHECK(id > last);
    last = id;
  }
}

TEST_CASE("small allocations that are adjacent in one mapping are one memory block") {
  const Memory first(64 * KB);
  const Memory second(64 * KB);
  if (value(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, first) !=
      value(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, second))
    return;
  CHECK(value(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, first) ==
        value(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, second));
  CHECK(value(CU_POINTER_ATTRIBUTE_BUFFER_ID, first) !=
        value(CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
}

TEST_CASE("several attributes at once, with defaults for unknown ones") {
  const Memory memory(64 * KB);
  unsigned type = 77;
  int ordinal = 77;
  CUdeviceptr start = 77;
  CUdeviceptr host = 77;
  CUpointer_attribute asked[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* data[] = {&type, &ordinal, &start, &host};
  REQUIRE(cuPointerGetAttributes(4, asked, data, memory + 1) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(ordinal == 0);
  CHECK(start == memory);
  CHECK(host == memory + 1);

  start = 77;
  REQUIRE(cuPointerGetAttributes(4, asked, data, 0x1234) == CUDA_SUCCESS);
  CHECK(type == 0);
  CHECK(ordinal == CU_DEVICE_INVALID);
  CHECK(start == 77);
  CHECK(host == 0x1234);

  // Where an attribute has no value, cuPointerGetAttributes answers 0 and succeeds.
  const DeviceMemory on_device(64 * KB);
  REQUIRE(cuPointerGetAttributes(4, asked, data, on_device) == CUDA_SUCCESS);
  CHECK(host == 0);
  CHECK(start == on_device);
}

TEST_CASE("a wrong attribute among several ends the call at that attribute") {
  const Memory memory(64 * KB);
  unsigned first = 77;
  unsigned last = 77;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 static_cast<CUpointer_attribute>(99),
                                 CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  unsigned middle = 77;
  void* data[] = {&first, &middle, &last};
  CHECK(cuPointerGetAttributes(3, asked, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(first == CU_MEMORYTYPE_DEVICE);
  CHECK(middle == 77);
  CHECK(last == 77);

  first = 77;
  CHECK(cuPointerGetAttributes(0, asked, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttributes(1, nullptr, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttributes(1, asked, nullptr, memory) == CUDA_ERROR_INVALID_VALUE);
  data[2] = nullptr;
  CHECK(cuPointerGetAttributes(3, asked, data, memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(first == 77);
}

TEST_CASE("sync_memops is set for the whole allocation, and no other attribute can be set") {
  const DeviceMemory memory(64 * KB);
  const unsigned values[] = {1, 2, 0};
  for (const unsigned wanted : values) {
    CHECK(cuPointerSetAttribute(&wanted, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory + 4100) ==
          CUDA_SUCCESS);
    CHECK(value(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory) == (wanted != 0 ? 1 : 0));
  }
  const std::uint64_t big = 0;
  for (int attribute = 0; attribute <= 25; ++attribute)
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      CHECK(cuPointerSetAttribute(&big, static_cast<CUpointer_attribute>(attribute), memory) ==
            CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerSetAttribute(&big, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("tokens belong to one allocation, and reading them sets sync_memops") {
  const DeviceMemory first(64 * KB);
  const DeviceMemory second(64 * KB);
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens[3] = {};
  REQUIRE(cuPointerGetAttribute(&tokens[0], CU_POINTER_ATTRIBUTE_P2P_TOKENS, first) ==
          CUDA_SUCCESS);
  REQUIRE(cuPointerGetAttribute(&tokens[1], CU_POINTER_ATTRIBUTE_P2P_TOKENS, second) ==
          CUDA_SUCCESS);
  REQUIRE(cuPointerGetAttribute(&tokens[2], CU_POINTER_ATTRIBUTE_P2P_TOKENS, first + 4100) ==
          CUDA_SUCCESS);
  CHECK(tokens[0].vaSpaceToken != tokens[1].vaSpaceToken);
  CHECK(tokens[0].vaSpaceToken == tokens[2].vaSpaceToken);
  CHECK(value(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first) == 1);
  CHECK(ask(CU_POINTER_ATTRIBUTE_P2P_TOKENS, first).written == 12);
}

TEST_CASE("the runtime API reports the kind of memory") {
  const Memory managed(64 * KB);
  const DeviceMemory device(64 * KB);
  int local = 0;
  const auto attributes_of = [](CUdeviceptr pointer) {
    cudaPointerAttributes attributes{};
    CHECK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(pointer)) == cudaSuccess);
    return attributes;
  };
  CHECK(attributes_of(managed + 5).type == cudaMemoryTypeManaged);
  CHECK(attributes_of(managed + 5).hostPointer == reinterpret_cast<void*>(managed + 5));
  CHECK(attributes_of(device).type == cudaMemoryTypeDevice);
  CHECK(attributes_of(device).hostPointer == nullptr);
  CHECK(attributes_of(device).devicePointer == reinterpret_cast<void*>(CUdeviceptr{device}));
  const auto unknown = attributes_of(reinterpret_cast<std::uintptr_t>(&local));
  CHECK(unknown.type == cudaMemoryTypeUnregistered);
  CHECK(unknown.device == CU_DEVICE_INVALID);
  CHECK(unknown.hostPointer == &local);
  CHECK(cudaPointerGetAttributes(nullptr, &local) == cudaErrorInvalidValue);
}

TEST_CASE("attributes can be read while other threads allocate and free") {
  const Memory stays(64 * KB);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> askers;
  for (int i = 0; i < 2; ++i)
    askers.emplace_back([&] {
      while (!stop) {
        std::uint64_t start = 0;
        if (cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, stays + 777) !=
                CUDA_SUCCESS ||
            start != stays)
          ++wrong;
      }
    });
  for (int i = 0; i < 500; ++i) {
    const Memory one(64 * KB);
    const Memory other(i % 7 * MB + 1);
  }
  stop = true;
  for (auto& asker : askers) asker.join();
  CHECK(wrong == 0);
}

}  // namespace wherry::test::pointer_test
