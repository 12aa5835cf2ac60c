// cuStreamAttachMemAsync. No function of the API returns attachments, so the test reads them from
// the library's internal state.
#include <wherry/cuda.h>

#include <utility>
#include <vector>

#include "objects/driver.h"
#include "support/busy.h"
#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::attach_test {

namespace {

const Session& session() {
  static const Session the_session("capacity=64M,workers=4;capacity=64M,workers=4");
  return the_session;
}

constexpr std::size_t bytes = 64 << 10;

// 64 KiB of managed memory.
class Memory {
 public:
  explicit Memory(unsigned flags = CU_MEM_ATTACH_GLOBAL) {
    WHERRY_TRY(cuMemAllocManaged(&address_, bytes, flags));
  }
  ~Memory() { cuMemFree(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  operator CUdeviceptr() const { return address_; }

 private:
  CUdeviceptr address_ = 0;
};

unsigned flags_of(CUdeviceptr address) {
  auto& runtime = wherry::impl::Driver::current()->runtime();
  return runtime.heap().attach_flags(runtime.heap().find(address).value());
}

// Attaches, and waits.
CUresult attach(CUstream stream, CUdeviceptr address, std::size_t length, unsigned flags) {
  const CUresult result = cuStreamAttachMemAsync(stream, address, length, flags);
  WHERRY_TRY(cuCtxSynchronize());
  return result;
}

CUstream create_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, flags));
  return stream;
}

}  // namespace

TEST_CASE("memory stays attached as it was allocated until it is attached differently", "[api]") {
  session();
  const Memory global(CU_MEM_ATTACH_GLOBAL);
  const Memory host(CU_MEM_ATTACH_HOST);
  CHECK(flags_of(global) == CU_MEM_ATTACH_GLOBAL);
  CHECK(flags_of(host) == CU_MEM_ATTACH_HOST);
}

TEST_CASE(
    "memory is attached with exactly one flag, and only the single-stream flag takes a stream",
    "[api]") {
  session();
  const CUstream non_blocking = create_stream(CU_STREAM_NON_BLOCKING);
  const CUstream blocking = create_stream(CU_STREAM_DEFAULT);
  const std::vector<std::pair<CUstream, bool>> streams_and_whether_one = {
      {nullptr, false},
      {CU_STREAM_LEGACY, false},
      {CU_STREAM_PER_THREAD, true},
      {non_blocking, true},
      {blocking, true}};
  for (const auto& [stream, is_one] : streams_and_whether_one) {
    for (const std::size_t length : {std::size_t{0}, bytes}) {
      for (const unsigned flags : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 99u, ~0u}) {
        const Memory memory;
        const bool good = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                          (flags == CU_MEM_ATTACH_SINGLE && is_one);
        INFO("stream " << stream << ", length " << length << ", flags " << flags);
        CHECK(attach(stream, memory, length, flags) ==
              (good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        CHECK(flags_of(memory) == (good ? flags : unsigned{CU_MEM_ATTACH_GLOBAL}));
      }
    }
  }
  WHERRY_TRY(cuStreamDestroy(non_blocking));
  WHERRY_TRY(cuStreamDestroy(blocking));
}

TEST_CASE("an allocation is attached as a whole", "[api]") {
  const Session& s = session();
  const Memory memory;
  for (const unsigned flags : {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_SINGLE}) {
    for (const std::size_t length : {0, 1, 4096, 32768, 65535, 65536, 65537, 131072}) {
      const CUresult whole =
          length == 0 || length == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      CHECK(attach(s.stream(0), memory, length, flags) == whole);
      CHECK(attach(s.stream(0), memory + 4096, length, flags) == CUDA_ERROR_INVALID_VALUE);
      CHECK(attach(s.stream(0), memory + 1, length, flags) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  CUdeviceptr odd = 0;
  WHERRY_TRY(cuMemAllocManaged(&odd, 5000, CU_MEM_ATTACH_GLOBAL));
  CHECK(attach(s.stream(0), odd, 5000, CU_MEM_ATTACH_HOST) == CUDA_SUCCESS);
  CHECK(attach(s.stream(0), odd, 8192, CU_MEM_ATTACH_HOST) == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuMemFree(odd));
}

TEST_CASE("only managed memory can be attached, and only by existing streams", "[api]") {
  const Session& s = session();
  int on_the_stack = 0;
  CUdeviceptr freed = 0;
  WHERRY_TRY(cuMemAllocManaged(&freed, bytes, CU_MEM_ATTACH_GLOBAL));
  WHERRY_TRY(cuMemFree(freed));
  for (const CUdeviceptr wrong : {CUdeviceptr{0}, CUdeviceptr{0x10000},
                                  reinterpret_cast<CUdeviceptr>(&on_the_stack), freed}) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{4096}}) {
      CHECK(attach(s.stream(0), wrong, length, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  const Memory memory;
  CHECK(attach(reinterpret_cast<CUstream>(0x3), memory, 0, CU_MEM_ATTACH_GLOBAL) ==
        CUDA_ERROR_INVALID_HANDLE);
  WHERRY_TRY(cuCtxPushCurrent(s.context(0)));
  WHERRY_TRY(cuCtxSetCurrent(nullptr));
  WHERRY_TRY(cuCtxSetCurrent(nullptr));
  CHECK(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_GLOBAL) ==
        CUDA_ERROR_INVALID_CONTEXT);
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
}

TEST_CASE("an attachment takes effect in stream order, and replaces the previous one", "[api]") {
  const Session& s = session();
  const Memory memory;
  Busy busy(s.stream(0));
  CHECK(cuStreamAttachMemAsync(s.stream(0), memory, 0, CU_MEM_ATTACH_HOST) == CUDA_SUCCESS);
  CHECK(flags_of(memory) == CU_MEM_ATTACH_GLOBAL);
  busy.leave();
  WHERRY_TRY(s.wait(0));
  CHECK(flags_of(memory) == CU_MEM_ATTACH_HOST);
  CHECK(attach(s.stream(1), memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  WHERRY_TRY(s.wait(1));
  CHECK(flags_of(memory) == CU_MEM_ATTACH_SINGLE);
  CHECK(attach(s.stream(0), memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  CHECK(attach(nullptr, memory, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  CHECK(flags_of(memory) == CU_MEM_ATTACH_GLOBAL);
}

TEST_CASE("an attachment to one stream ends with the stream, when its work has finished", "[api]") {
  session();
  const unsigned born = GENERATE(CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST);
  const Memory memory(born);
  const CUstream stream = create_stream();
  REQUIRE(attach(stream, memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  Busy busy(stream);
  WHERRY_TRY(cuStreamDestroy(stream));
  CHECK(flags_of(memory) == CU_MEM_ATTACH_SINGLE);
  busy.leave();
  WHERRY_TRY(cuCtxSynchronize());
  CHECK(flags_of(memory) == born);
}

TEST_CASE("all streams may use memory that is attached to one, as access is concurrent", "[api]") {
  const Session& s = session();
  Managed<int> memory(1);
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(memory.data());
  REQUIRE(attach(s.stream(0), address, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  Busy busy(s.stream(0));
  s.run(1, [word = memory.data()] { *word = 1; });
  CHECK(memory[0] == 1);
  REQUIRE(cuStreamAttachMemAsync(nullptr, address, 0, CU_MEM_ATTACH_HOST) == CUDA_SUCCESS);
  s.run(1, [word = memory.data()] { *word += 1; });
  CHECK(memory[0] == 2);
  busy.leave();
  WHERRY_TRY(s.wait(0));
}

TEST_CASE("an attachment ends with the allocation", "[api]") {
  const Session& s = session();
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
  CHECK(attach(s.stream(0), address, 0, CU_MEM_ATTACH_HOST) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(address));
  CUdeviceptr again = 0;
  WHERRY_TRY(cuMemAllocManaged(&again, bytes, CU_MEM_ATTACH_GLOBAL));
  CHECK(flags_of(again) == CU_MEM_ATTACH_GLOBAL);
  WHERRY_TRY(cuMemFree(again));
}

}  // namespace wherry::test::attach_test
