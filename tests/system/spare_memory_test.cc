// Freed device memory keeps its pages for the next allocation, until other memory needs them.
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <cstdint>

#include "support/catch.h"
#include "support/session.h"
#include "support/stage.h"
#include "support/virtual_memory.h"
#include "support/waiting.h"

namespace wherry::test::spare_memory_test {

namespace {

constexpr std::size_t capacity = 64 * mebibyte;

Stage& stage() {
  static Stage the_stage("capacity=64M,workers=1");
  return the_stage;
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemAlloc(&address, bytes));
  return address;
}

}  // namespace

TEST_CASE("an allocation of as many pages as freed ones gets those pages, and nothing is created",
          "[system]") {
  stage();
  const std::size_t before = free_memory();
  const CUdeviceptr first = allocate(3 * mebibyte);
  WHERRY_TRY(cuMemFree(first));
  CHECK(free_memory() == before);
  CHECK(stage().witness().pool_bytes(1) >= 3 * mebibyte);
  // To the API the memory is gone.
  CUdeviceptr base = 0;
  CHECK(cuMemGetAddressRange(&base, nullptr, first) == CUDA_ERROR_NOT_FOUND);
  CHECK(cuMemFree(first) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8(first, 1, 1) == CUDA_ERROR_INVALID_VALUE);

  const CUdeviceptr again = allocate(3 * mebibyte - 100);
  CHECK(again == first);
  std::size_t bytes = 0;
  CHECK(cuMemGetAddressRange(&base, &bytes, again + 5) == CUDA_SUCCESS);
  CHECK(bytes == 3 * mebibyte - 100);
  CHECK(cuMemsetD8(again, 1, 3 * mebibyte) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8(again, 0, bytes) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  stage().write(device0, words_at(again) + 77, 4711);
  CHECK(stage().read(device0, words_at(again) + 77) == 4711);
  CHECK(free_memory() == before - 3 * mebibyte);
  WHERRY_TRY(cuMemFree(again));
}

TEST_CASE("the oldest of the freed memory is given up for newer one", "[system]") {
  stage();
  const CUdeviceptr first = allocate(10 * mebibyte);
  const CUdeviceptr second = allocate(5 * mebibyte);
  const CUdeviceptr third = allocate(8 * mebibyte);
  for (const CUdeviceptr address : {first, second, third}) WHERRY_TRY(cuMemFree(address));
  // A quarter of the pool is 16 MiB.
  CHECK(stage().witness().pool_bytes(1) == 13 * mebibyte);
  CHECK(allocate(5 * mebibyte) == second);
  CHECK(allocate(8 * mebibyte) == third);
  WHERRY_TRY(cuMemFree(second));
  WHERRY_TRY(cuMemFree(third));
}

TEST_CASE("freed memory is given up for other allocations, and for managed memory", "[system]") {
  stage();
  const CUdeviceptr spare = allocate(12 * mebibyte);
  WHERRY_TRY(cuMemFree(spare));
  REQUIRE(stage().witness().pool_bytes(1) >= 12 * mebibyte);
  SECTION("a device allocation that needs all of the pool") {
    const CUdeviceptr all = allocate(capacity);
    CHECK(stage().witness().pool_bytes(1) == capacity);
    WHERRY_TRY(cuMemFree(all));  // more than is kept
    CHECK(stage().witness().pool_bytes(1) == 0);
  }
  SECTION("managed pages that fill the pool") {
    const Words managed(60 * mebibyte / sizeof(std::uint64_t));
    stage().write_pages(device0, managed.data(), managed.bytes(), 5);
    CHECK(comes_true([&] { return stage().witness().pool_bytes(1) <= capacity; }));
    CHECK(stage().read_pages(device0, managed.data(), managed.bytes()) ==
          5 * managed.bytes() / page_bytes);
    // If the pool still kept the 12 MiB, it would have no space for so many managed pages.
    CHECK(comes_true([&] {
      stage().read_pages(device0, managed.data(), managed.bytes());
      std::size_t here = 0;
      for (std::size_t i = 0; i < managed.size(); i += 512 * page_words)
        here += (stage().residents(managed.data() + i) & bit_of(device0)) != 0;
      return here * 2 * mebibyte > capacity - 12 * mebibyte;
    }));
  }
  SECTION("a memory pool") {
    CUdeviceptr pooled = 0;
    WHERRY_TRY(cuMemAllocAsync(&pooled, 62 * mebibyte, nullptr));
    WHERRY_TRY(cuMemFreeAsync(pooled, nullptr));
    WHERRY_TRY(cuStreamSynchronize(nullptr));
  }
}

}  // namespace wherry::test::spare_memory_test
