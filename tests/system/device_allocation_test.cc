// Device memory (cuMemAlloc): where its pages are, which processors may access it, and what happens
// to managed memory that shares the pool.
#include <wherry/cuda_runtime_api.h>

#include "support/catch.h"
#include "support/session.h"
#include "support/stage.h"

namespace wherry::test::device_allocation_test {

namespace {

constexpr const char* devices = "capacity=16M,workers=1;capacity=16M,workers=1";

Stage& stage() {
  // "arriving": the library merges no pages in the background, so pages keep their frames.
  static Stage the_stage(devices, "WHERRY_HUGE_PAGES", "arriving");
  return the_stage;
}

// Device memory of device 0. Requires: its context is current.
class Own {
 public:
  explicit Own(std::size_t bytes) : bytes_(bytes) { WHERRY_TRY(cuMemAlloc(&address_, bytes)); }
  ~Own() { cuMemFree(address_); }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  CUdeviceptr address() const { return address_; }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(address_); }
  std::size_t count() const { return bytes_ / sizeof(std::uint64_t); }

 private:
  std::size_t bytes_;
  CUdeviceptr address_ = 0;
};

// Counts the allocation's pages that are in exactly the pools of `residents`.
std::size_t count_pages(const Own& own, std::uint32_t residents) {
  std::size_t pages = 0;
  for (std::size_t i = 0; i < own.count(); i += page_words)
    pages += stage().residents(own.words() + i) == residents;
  return pages;
}

void fill(const Words& words, std::uint64_t seed) {
  for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = seed + i;
}
std::size_t count_wrong(const Words& words, std::uint64_t seed) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words) wrong += words[i] != seed + i;
  return wrong;
}

}  // namespace

TEST_CASE("device memory is in its device's pool as soon as it is allocated, and is zero",
          "[system]") {
  stage();
  const std::size_t before = free_memory();
  {
    const Own own(3 * mebibyte);
    CHECK(count_pages(own, bit_of(device0)) == 3 * mebibyte / page_bytes);
    CHECK(free_memory() == before - 3 * mebibyte);
    CHECK(stage().read_pages(device0, own.words(), 3 * mebibyte) == 0);
    stage().write(device0, own.words() + 77, 4711);
    CHECK(stage().read(device0, own.words() + 77) == 4711);
    CHECK(stage().witness().mappers(own.words()) == bit_of(device0));
    CUdeviceptr base = 0;
    std::size_t size = 0;
    CHECK(cuMemGetAddressRange(&base, &size, own.address() + mebibyte) == CUDA_SUCCESS);
    CHECK(base == own.address());
    CHECK(size == 3 * mebibyte);
  }
  CHECK(free_memory() == before);
}

TEST_CASE("an allocation of device memory that cannot succeed is refused, and nothing changes",
          "[system]") {
  stage();
  CUdeviceptr address = 1;
  CHECK(cuMemAlloc(nullptr, page_bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc(&address, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(address == 0);
  const Words managed(8 * mebibyte / sizeof(std::uint64_t));
  stage().write_pages(device0, managed.data(), managed.bytes(), 5);
  const std::size_t before = free_memory();
  for (const std::size_t bytes : {16 * mebibyte + 1, 17 * mebibyte, ~std::size_t{0}}) {
    address = 1;
    CHECK(cuMemAlloc(&address, bytes) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(address == 0);
  }
  const Own half(8 * mebibyte);
  CHECK(cuMemAlloc(&address, 9 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(free_memory() == before - 8 * mebibyte);
  CHECK(stage().residents(managed.data()) == bit_of(device0));
}

TEST_CASE("managed memory leaves the pool for device memory, which never leaves it", "[system]") {
  stage();
  const Words managed(14 * mebibyte / sizeof(std::uint64_t));
  stage().write_pages(device0, managed.data(), managed.bytes(), 9);
  const Own own(12 * mebibyte);
  stage().write_pages(device0, own.words(), 12 * mebibyte, 3);
  CHECK(stage().witness().pool_bytes(1) <= 16 * mebibyte);
  // Repeatedly reads managed memory of twice the free size.
  for (int pass = 0; pass < 3; ++pass)
    CHECK(stage().read_pages(device0, managed.data(), managed.bytes()) ==
          9 * managed.bytes() / page_bytes);
  CHECK(count_pages(own, bit_of(device0)) == 12 * mebibyte / page_bytes);
  CHECK(stage().read_pages(device0, own.words(), 12 * mebibyte) == 3 * 12 * mebibyte / page_bytes);
}

TEST_CASE("a device whose pool is full of its own memory still computes on managed memory",
          "[system]") {
  stage();
  const Own own(16 * mebibyte);
  CHECK(free_memory() == 0);
  const Words words(4 * mebibyte / sizeof(std::uint64_t));
  const Words untouched(mebibyte / sizeof(std::uint64_t));
  fill(words, 100);
  // Increments every word that the host has written, and words that no processor has written.
  stage().session().run(device0,
                        [data = words.data(), count = words.size(), fresh = untouched.data()] {
                          for (std::size_t i = 0; i < count; i += page_words) data[i] += 1;
                          fresh[0] = 42;
                        });
  CHECK(count_wrong(words, 101) == 0);
  CHECK(untouched[0] == 42);
  CHECK(stage().residents(words.data()) == bit_of(host));
  CHECK(stage().residents(untouched.data()) == bit_of(host));
  CHECK(stage().same_frame(host, device0, words.data()));
  CHECK(count_pages(own, bit_of(device0)) == 16 * mebibyte / page_bytes);
}

TEST_CASE("device memory survives a new device process, with its contents", "[system]") {
  const Own own((stage(), mebibyte));
  stage().write_pages(device0, own.words(), mebibyte, 8);
  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  stage().session().renew_stream(0);
  CHECK(stage().read_pages(device0, own.words(), mebibyte) == 8 * mebibyte / page_bytes);
  CHECK(count_pages(own, bit_of(device0)) == mebibyte / page_bytes);
}

TEST_CASE("the runtime API allocates device memory, too; arrays are not supported", "[system]") {
  stage();
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, mebibyte) == cudaSuccess);
  stage().write(device0, static_cast<std::uint64_t*>(memory), 1);
  CHECK(stage().residents(static_cast<std::uint64_t*>(memory)) == bit_of(device0));
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaMalloc(&memory, 0) == cudaSuccess);
  CHECK(memory == nullptr);
  CHECK(cudaMalloc(&memory, 64 * mebibyte) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);

  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR plane{64, 64, CU_AD_FORMAT_FLOAT, 1};
  const CUDA_ARRAY3D_DESCRIPTOR space{64, 64, 64, CU_AD_FORMAT_FLOAT, 1, 0};
  CHECK(cuArrayCreate(&array, &plane) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuArray3DCreate(&array, &space) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("what can be said of managed memory cannot be said of device memory", "[system]") {
  const Own own((stage(), mebibyte));
  const CUmemLocation there = location_of(device0);
  for (const CUmem_advise advice :
       {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY,
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY})
    CHECK(cuMemAdvise(own.address(), page_bytes, advice, there) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPrefetchAsync(own.address(), page_bytes, there, 0, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  CHECK(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                               own.address(), page_bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryPinPages(own.address(), page_bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryUnpinPages(own.address(), page_bytes) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a kernel on another device that accesses device memory fails its context", "[system]") {
  const Own own((stage(), mebibyte));
  stage().write(device0, own.words(), 6);
  stage().session().launch(device1, 1, [word = own.words()](std::size_t) { *word = 1; });
  CHECK(stage().session().wait(device1) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(stage().read(device0, own.words()) == 6);
  WHERRY_TRY(cuDevicePrimaryCtxReset(1));
  stage().session().renew_stream(1);
}

}  // namespace wherry::test::device_allocation_test
