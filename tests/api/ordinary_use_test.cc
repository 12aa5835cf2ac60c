// Results of the calls for libraries that hand out managed memory in the place of ordinary memory.
// system/ordinary_use_test tests their effects on pages.
#include <sys/mman.h>
#include <unistd.h>

#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::ordinary_use_test {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t block = std::size_t{2} << 20;

const Session& session() {
  static const Session the_session("kind=coherent,capacity=16M");
  return the_session;
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  WHERRY_TRY(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL));
  return pointer;
}

}  // namespace

TEST_CASE("ranges that are no whole pages of one managed allocation are refused", "[api]") {
  session();
  const CUdeviceptr memory = allocate(2 * block);
  const int file = ::memfd_create("file", 0);
  int local = 0;
  const auto stack = reinterpret_cast<CUdeviceptr>(&local) / page * page;
  for (const auto& [pointer, bytes] : {std::pair<CUdeviceptr, std::size_t>{0, page},
                                       {memory, 0},
                                       {memory + 1, page},
                                       {memory, 2 * block + page},
                                       {memory, SIZE_MAX},
                                       {stack, page}}) {
    CAPTURE(pointer, bytes);
    CHECK(wherryFreePages(pointer, bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(wherrySavePages(pointer, bytes, file, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(wherrySavePages(memory, page, file, -1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryMakePrivate(0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryMakePrivate(memory + page) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryMakePrivate(stack) == CUDA_ERROR_INVALID_VALUE);
  ::close(file);
  WHERRY_TRY(cuMemFree(memory));
  CHECK(wherryMakePrivate(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a file that cannot be written is reported", "[api]") {
  session();
  const CUdeviceptr memory = allocate(block);
  *reinterpret_cast<volatile int*>(memory) = 1;
  CHECK(wherrySavePages(memory, page, -1, 0) == CUDA_ERROR_OPERATING_SYSTEM);
  WHERRY_TRY(cuMemFree(memory));
}

TEST_CASE("pinned pages are neither freed nor made private, but they can be saved", "[api]") {
  session();
  const CUdeviceptr memory = allocate(2 * block);
  *reinterpret_cast<volatile int*>(memory) = 7;
  WHERRY_TRY(wherryPinPages(memory, page));
  CHECK(wherryFreePages(memory, 2 * page) == CUDA_ERROR_NOT_PERMITTED);
  CHECK(wherryMakePrivate(memory) == CUDA_ERROR_NOT_PERMITTED);
  const int file = ::memfd_create("file", 0);
  CHECK(wherrySavePages(memory, page, file, 0) == CUDA_SUCCESS);
  int saved = 0;
  CHECK(::pread(file, &saved, sizeof saved, 0) == sizeof saved);
  CHECK(saved == 7);
  ::close(file);
  CHECK(*reinterpret_cast<volatile int*>(memory) == 7);
  WHERRY_TRY(wherryUnpinPages(memory, page));
  CHECK(wherryFreePages(memory, 2 * page) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(memory));
}

TEST_CASE("memory that became private is not managed any more", "[api]") {
  session();
  const CUdeviceptr small = allocate(block / 2);
  CHECK(wherryMakePrivate(small) == CUDA_ERROR_NOT_SUPPORTED);
  WHERRY_TRY(cuMemFree(small));
  const CUdeviceptr memory = allocate(2 * block);
  *reinterpret_cast<volatile int*>(memory + block) = 5;
  REQUIRE(wherryMakePrivate(memory) == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<volatile int*>(memory + block) == 5);
  CHECK(wherryMakePrivate(memory) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryFreePages(memory, page) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE);
  CUmemorytype type{};
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory) ==
        CUDA_ERROR_INVALID_VALUE);
  // The library does not allocate the addresses of the private memory again.
  for (int i = 0; i < 20; ++i) {
    const CUdeviceptr other = allocate(2 * block);
    CHECK((other >= memory + 2 * block || other + 2 * block <= memory));
    if (i % 2 == 0) WHERRY_TRY(cuMemFree(other));
  }
}

}  // namespace wherry::test::ordinary_use_test
