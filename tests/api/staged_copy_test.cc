// Asynchronous copies from pageable memory while earlier work of the stream is pending: the call
// copies the bytes to staging memory and returns.
#include <sys/mman.h>
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <vector>

#include "support/busy.h"
#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::staged_copy_test {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t MB = std::size_t{1} << 20;
// The most bytes that may wait for streams (runtime/runtime.h).
constexpr std::size_t staged_max = 32 * MB;

using Bytes = std::vector<unsigned char>;

const Session& session() {
  static const Session the_session("capacity=128M,workers=4;capacity=64M");
  return the_session;
}

Bytes numbered(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251 + 3);
  return bytes;
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) { WHERRY_TRY(cuMemAlloc(&start_, bytes)); }
  ~DeviceMemory() { cuMemFree(start_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  CUdeviceptr start() const { return start_; }
  void* pointer() const { return reinterpret_cast<void*>(start_); }

 private:
  CUdeviceptr start_ = 0;
};

bool has(CUdeviceptr at, const Bytes& wanted) {
  Bytes bytes(wanted.size());
  WHERRY_TRY(cuMemcpyDtoH(bytes.data(), at, bytes.size()));
  return bytes == wanted;
}

}  // namespace

TEST_CASE("an asynchronous copy has read pageable memory when the call returns", "[api]") {
  const Session& s = session();
  const std::size_t size = GENERATE(std::size_t{64}, 4 * page, MB, 3 * MB + 5);
  const DeviceMemory device(4 * MB);
  const Managed<unsigned char> managed(4 * MB);
  const auto managed_address = reinterpret_cast<CUdeviceptr>(managed.data());
  CUstream const stream = s.stream(0);
  const std::function<CUresult(const unsigned char*)> calls[] = {
      [&](const unsigned char* from) {
        return cuMemcpyHtoDAsync(device.start(), from, size, stream);
      },
      [&](const unsigned char* from) {
        return cuMemcpyAsync(device.start(), reinterpret_cast<CUdeviceptr>(from), size, stream);
      },
      [&](const unsigned char* from) {
        const auto copied =
            cudaMemcpyAsync(device.pointer(), from, size, cudaMemcpyHostToDevice, stream);
        return static_cast<CUresult>(copied);
      },
      [&](const unsigned char* from) {
        const CUresult copied = cuMemcpyHtoDAsync(managed_address, from, size, stream);
        const CUresult on = cuMemcpyDtoDAsync(device.start(), managed_address, size, stream);
        return copied != CUDA_SUCCESS ? copied : on;
      }};
  for (const auto& call : calls) {
    INFO(&call - calls << " of " << size);
    Bytes bytes = numbered(size);
    WHERRY_TRY(cuMemsetD8(device.start(), 0, 4 * MB));
    WHERRY_TRY(cuCtxSynchronize());
    Busy busy(stream);
    CHECK(call(bytes.data()) == CUDA_SUCCESS);
    CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    std::ranges::fill(bytes, 0xee);
    busy.leave();
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(has(device.start(), numbered(size)));
    CHECK(has(device.start() + size, Bytes(64)));
  }
}

TEST_CASE("kernels around an asynchronous copy from pageable memory keep their order", "[api]") {
  const Session& s = session();
  const Managed<int> memory(2);
  int* const words = memory.data();
  for (int round = 1; round < 20; ++round) {
    memory[0] = memory[1] = 0;
    Busy busy(s.stream(0));
    s.launch(0, 1, [words](std::size_t) { words[0] = -1; });
    int value = round;
    WHERRY_TRY(
        cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(words), &value, sizeof value, s.stream(0)));
    value = -2;
    s.launch(0, 1, [words](std::size_t) { words[1] = words[0] * 10; });
    busy.leave();
    WHERRY_TRY(s.wait(0));
    REQUIRE(memory[0] == round);
    REQUIRE(memory[1] == round * 10);
  }
}

TEST_CASE("boxes of pageable memory are read during the call, too", "[api]") {
  const Session& s = session();
  constexpr std::size_t width = 100;
  constexpr std::size_t pitch = 160;
  constexpr std::size_t rows = 30;
  constexpr std::size_t layers = 3;
  const DeviceMemory device(MB);
  Bytes bytes = numbered(pitch * rows * layers);
  const Bytes before = bytes;
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.data();
  copy.srcPitch = pitch;
  copy.srcHeight = rows;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device.start();
  copy.dstPitch = 2 * width;
  copy.dstHeight = rows;
  copy.WidthInBytes = width;
  copy.Height = rows;
  copy.Depth = layers;
  Busy busy(s.stream(0));
  CHECK(cuMemcpy3DAsync(&copy, s.stream(0)) == CUDA_SUCCESS);
  std::ranges::fill(bytes, 0xee);
  CHECK(cuStreamQuery(s.stream(0)) == CUDA_ERROR_NOT_READY);
  busy.leave();
  WHERRY_TRY(s.wait(0));
  for (std::size_t row = 0; row < rows * layers; ++row) {
    const auto start = before.begin() + static_cast<std::ptrdiff_t>(row * pitch);
    REQUIRE(has(device.start() + row * 2 * width, Bytes(start, start + width)));
  }
}

TEST_CASE("pageable memory that does not exist is refused in the call, without other effects",
          "[api]") {
  const Session& s = session();
  const DeviceMemory device(MB);
  void* const map =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const bytes = static_cast<char*>(map);
  // An inaccessible page instead of a hole: the library's own memory could be mapped into a hole.
  REQUIRE(::mprotect(bytes + page, page, PROT_NONE) == 0);
  Busy busy(s.stream(0));
  CHECK(cuMemcpyHtoDAsync(device.start(), bytes + 10, page, s.stream(0)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamQuery(s.stream(0)) == CUDA_ERROR_NOT_READY);
  busy.leave();
  CHECK(s.wait(0) == CUDA_SUCCESS);
  ::munmap(map, 2 * page);
}

TEST_CASE("a copy from pageable memory waits for its stream once too many bytes are staged",
          "[api]") {
  const Session& s = session();
  const DeviceMemory device(4 * MB);
  Bytes piece = numbered(4 * MB);
  Busy busy(s.stream(0));
  for (std::size_t staged = 0; staged < staged_max; staged += piece.size())
    WHERRY_TRY(cuMemcpyHtoDAsync(device.start(), piece.data(), piece.size(), s.stream(0)));
  REQUIRE(cuStreamQuery(s.stream(0)) == CUDA_ERROR_NOT_READY);
  std::ranges::fill(piece, 0x77);
  auto copied = std::async(std::launch::async, [&] {
    WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
    return cuMemcpyHtoDAsync(device.start(), piece.data(), piece.size(), s.stream(0));
  });
  CHECK(copied.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  busy.leave();
  CHECK(copied.get() == CUDA_SUCCESS);
  CHECK(cuStreamQuery(s.stream(0)) == CUDA_SUCCESS);
  CHECK(has(device.start(), piece));
}

}  // namespace wherry::test::staged_copy_test
