// Memory that is allocated and freed in stream order: where it is, which allocation reuses it, how
// much the pools keep, and what happens when a device dies.
#include <wherry/cuda.h>

#include <signal.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "support/busy.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/own.h"
#include "support/session.h"
#include "support/stage.h"
#include "support/virtual_memory.h"

namespace wherry::test::memory_pool_test {

namespace {

constexpr std::size_t slab = 32 * mebibyte;

Stage& stage() {
  static Stage the_stage("capacity=96M,workers=2;capacity=96M,workers=1");
  return the_stage;
}
CUstream stream(int device = device0) {
  return stage().session().stream(device);
}
void make_current(int device = device0) {
  WHERRY_TRY(cuCtxSetCurrent(stage().session().context(device)));
}

// A memory pool of device 0, whose context is current while the pool exists.
class Pool {
 public:
  explicit Pool(std::size_t most = 0) {
    make_current();
    CUmemPoolProps wanted{};
    wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, device0};
    wanted.maxSize = most;
    WHERRY_TRY(cuMemPoolCreate(&handle_, &wanted));
  }
  ~Pool() { cuMemPoolDestroy(handle_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  operator CUmemoryPool() const { return handle_; }
  std::uint64_t get(CUmemPool_attribute attribute) const {
    std::uint64_t value = 0;
    WHERRY_TRY(cuMemPoolGetAttribute(handle_, attribute, &value));
    return value;
  }
  void set(CUmemPool_attribute attribute, std::uint64_t value) const {
    WHERRY_TRY(cuMemPoolSetAttribute(handle_, attribute, &value));
  }
  std::uint64_t used() const { return get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT); }
  std::uint64_t reserved() const { return get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); }
  CUdeviceptr allocate(std::size_t bytes, CUstream in) const {
    CUdeviceptr address = 0;
    WHERRY_TRY(cuMemAllocFromPoolAsync(&address, bytes, handle_, in));
    return address;
  }

 private:
  CUmemoryPool handle_ = nullptr;
};

struct OwnStream : NewStream {
  OwnStream() : NewStream(CU_STREAM_NON_BLOCKING) {}
};

bool is_known(CUdeviceptr address) {
  unsigned type = 0;
  return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS;
}

// The argument of two kernels: one fills the range with `value` plus the word's index, the other
// counts the words that differ from that.
struct Range {
  std::uint64_t* words;
  std::uint64_t value;
  std::uint64_t* wrong;
};
void fill(const void* args, std::size_t begin, std::size_t end) {
  const auto& range = *static_cast<const Range*>(args);
  for (std::size_t i = begin; i < end; ++i) range.words[i] = range.value + i;
}
void check_words(const void* args, std::size_t begin, std::size_t end) {
  const auto& range = *static_cast<const Range*>(args);
  std::uint64_t wrong = 0;
  for (std::size_t i = begin; i < end; ++i) wrong += range.words[i] != range.value + i;
  if (wrong != 0) __atomic_fetch_add(range.wrong, wrong, __ATOMIC_RELAXED);
}
void launch(CUstream in, wherryKernel kernel, Range range, std::size_t bytes) {
  WHERRY_TRY(wherryLaunchKernel(in, kernel, &range, sizeof range, bytes / sizeof(std::uint64_t)));
}

}  // namespace

TEST_CASE("memory of a pool is its device's, and is taken from the device in steps of 32 MiB",
          "[system]") {
  make_current();
  CUmemoryPool initial = nullptr;
  WHERRY_TRY(cuDeviceGetDefaultMemPool(&initial, device0));
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemAllocAsync(&address, 64 * 1024, stream()));
  stage().write(device0, words_at(address), 5);
  CHECK(stage().read(device0, words_at(address)) == 5);
  CHECK(stage().residents(words_at(address)) == bit_of(device0));
  CHECK(stage().witness().mappers(words_at(address)) == bit_of(device0));
  // The pages of the rest of the step are created when they are used.
  CHECK(stage().residents(words_at(address + 64 * 1024)) == 0);

  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address) == nullptr);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address + 4100) == initial);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) == 64 * 1024);
  CHECK(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address) == slab);
  CHECK(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, address) == address);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == 0);
  WHERRY_TRY(cuMemFreeAsync(address, stream()));
  CHECK_FALSE(is_known(address));
  CHECK(stage().session().wait(device0) == CUDA_SUCCESS);
  // Freed: no pool has the pages.
  CHECK(stage().residents(words_at(address)) == 0);
}

TEST_CASE("a pool keeps what its threshold allows, and remembers the most it had", "[system]") {
  const Pool pool;
  const CUdeviceptr a = pool.allocate(10 * mebibyte, stream());
  const CUdeviceptr b = pool.allocate(30 * mebibyte, stream());
  CHECK(pool.used() == 40 * mebibyte);
  CHECK(pool.reserved() == 2 * slab);
  WHERRY_TRY(cuMemFreeAsync(b, stream()));
  WHERRY_TRY(cuStreamSynchronize(stream()));
  CHECK(pool.used() == 10 * mebibyte);
  CHECK(pool.reserved() == slab);
  pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, slab);
  WHERRY_TRY(cuMemFreeAsync(a, stream()));
  WHERRY_TRY(cuCtxSynchronize());
  CHECK(pool.used() == 0);
  CHECK(pool.reserved() == slab);
  CHECK(pool.get(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 40 * mebibyte);
  CHECK(pool.get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 2 * slab);
  pool.set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  pool.set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  CHECK(pool.get(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
  CHECK(pool.get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == slab);
  WHERRY_TRY(cuMemPoolTrimTo(pool, 1));
  CHECK(pool.reserved() == slab);
  WHERRY_TRY(cuMemPoolTrimTo(pool, 0));
  CHECK(pool.reserved() == 0);
}

TEST_CASE("waiting for an event makes pools release memory, too", "[system]") {
  const Pool pool;
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  WHERRY_TRY(cuMemFreeAsync(pool.allocate(mebibyte, stream()), stream()));
  WHERRY_TRY(cuEventRecord(event, stream()));
  WHERRY_TRY(cuEventSynchronize(event));
  CHECK(pool.reserved() == 0);
  WHERRY_TRY(cuEventDestroy(event));
}

TEST_CASE(
    "freed memory is reused at once by its own stream, and by others once its stream gets there",
    "[system]") {
  const Pool pool;
  const OwnStream one;
  const OwnStream other;
  const CUdeviceptr first = pool.allocate(20 * mebibyte, one);
  {
    Busy busy(one);
    busy.wait_until_begun();
    WHERRY_TRY(cuMemFreeAsync(first, one));
    CHECK(pool.used() == 20 * mebibyte);
    const CUdeviceptr again = pool.allocate(20 * mebibyte, one);
    CHECK(again == first);
    WHERRY_TRY(cuMemFreeAsync(again, one));
    const CUdeviceptr elsewhere = pool.allocate(20 * mebibyte, other);
    CHECK(elsewhere != first);
    WHERRY_TRY(cuMemFreeAsync(elsewhere, other));
    // Reuses a part of the memory that the stream will free.
    CHECK(pool.allocate(mebibyte, one) == first);
  }
  WHERRY_TRY(cuStreamSynchronize(one));
  WHERRY_TRY(cuStreamSynchronize(other));
  CHECK(pool.used() == mebibyte);
  CHECK(pool.allocate(12 * mebibyte, other) > first);
  CHECK(pool.reserved() == slab);
  WHERRY_TRY(cuMemFree(first));
  CHECK(pool.used() == 12 * mebibyte);
  WHERRY_TRY(cuMemFree(first + mebibyte));
  CHECK(pool.used() == 0);
}

TEST_CASE("a stream without other free memory waits for memory that another stream will free",
          "[system]") {
  const Pool pool(slab);
  const OwnStream one;
  const OwnStream other;
  const CUdeviceptr first = pool.allocate(20 * mebibyte, one);
  CUdeviceptr none = 1;
  CHECK(cuMemAllocFromPoolAsync(&none, 20 * mebibyte, pool, other) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(none == 0);
  {
    Busy busy(one);
    busy.wait_until_begun();
    launch(one, fill, {words_at(first), 1000, nullptr}, 20 * mebibyte);
    WHERRY_TRY(cuMemFreeAsync(first, one));
    pool.set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
    CHECK(cuMemAllocFromPoolAsync(&none, 20 * mebibyte, pool, other) == CUDA_ERROR_OUT_OF_MEMORY);
    pool.set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1);
    CHECK(pool.allocate(20 * mebibyte, other) == first);
    CHECK(cuStreamQuery(other) == CUDA_ERROR_NOT_READY);
    launch(other, fill, {words_at(first), 2000, nullptr}, 20 * mebibyte);
  }
  const Words wrong(1);
  launch(other, check_words, {words_at(first), 2000, wrong.data()}, 20 * mebibyte);
  WHERRY_TRY(cuStreamSynchronize(other));
  CHECK(wrong[0] == 0);
  WHERRY_TRY(cuMemFreeAsync(first, other));
}

TEST_CASE("a stream that waits for an event gets what was freed before the event", "[system]") {
  const Pool pool;
  const OwnStream one;
  const OwnStream between;
  const OwnStream other;
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const CUdeviceptr first = pool.allocate(mebibyte, one);
  const CUdeviceptr wall = pool.allocate(mebibyte, one);
  const CUdeviceptr later = pool.allocate(mebibyte, one);
  std::vector<CUdeviceptr> elsewhere;
  const Words wrong(1);
  {
    Busy busy(one);
    busy.wait_until_begun();
    launch(one, fill, {words_at(first), 1000, nullptr}, mebibyte);
    WHERRY_TRY(cuMemFreeAsync(first, one));
    WHERRY_TRY(cuEventRecord(event, one));
    WHERRY_TRY(cuMemFreeAsync(later, one));
    // Through a third stream.
    WHERRY_TRY(cuStreamWaitEvent(between, event, 0));
    WHERRY_TRY(cuEventRecord(event, between));
    elsewhere.push_back(pool.allocate(mebibyte, other));
    WHERRY_TRY(cuStreamWaitEvent(other, event, 0));
    pool.set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0);
    elsewhere.push_back(pool.allocate(mebibyte, other));
    pool.set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
    CHECK(pool.allocate(mebibyte, other) == first);
    elsewhere.push_back(pool.allocate(mebibyte, other));
    launch(other, fill, {words_at(first), 2000, nullptr}, mebibyte);
  }
  for (const CUdeviceptr address : elsewhere) CHECK(address > later);
  launch(other, check_words, {words_at(first), 2000, wrong.data()}, mebibyte);
  WHERRY_TRY(cuStreamSynchronize(other));
  CHECK(wrong[0] == 0);
  for (const CUdeviceptr address : elsewhere) WHERRY_TRY(cuMemFree(address));
  WHERRY_TRY(cuMemFree(first));
  WHERRY_TRY(cuMemFree(wall));
  WHERRY_TRY(cuEventDestroy(event));
}

TEST_CASE("device memory is freed in the order of a stream, too", "[system]") {
  make_current();
  const OwnStream one;
  CUdeviceptr address = 0;
  WHERRY_TRY(cuMemAlloc(&address, mebibyte));
  const Words wrong(1);
  {
    Busy busy(one);
    busy.wait_until_begun();
    launch(one, fill, {words_at(address), 1000, nullptr}, mebibyte);
    launch(one, check_words, {words_at(address), 1000, wrong.data()}, mebibyte);
    CHECK(cuMemFreeAsync(address, one) == CUDA_SUCCESS);
    CHECK_FALSE(is_known(address));
    CHECK(cuMemFreeAsync(address, one) == CUDA_ERROR_INVALID_VALUE);
    // It is not available to anyone yet.
    CUdeviceptr another = 0;
    WHERRY_TRY(cuMemAlloc(&another, mebibyte));
    CHECK(another != address);
    WHERRY_TRY(cuMemFreeAsync(another, stream()));
  }
  CHECK(cuStreamSynchronize(one) == CUDA_SUCCESS);
  CHECK(wrong[0] == 0);
}

TEST_CASE("no two allocations that kernels may use at the same time share memory", "[system]") {
  std::mt19937_64 random(seed());
  const Pool pool(2 * slab);
  const std::vector<std::unique_ptr<OwnStream>> streams = [] {
    std::vector<std::unique_ptr<OwnStream>> made(4);
    for (auto& one : made) one = std::make_unique<OwnStream>();
    return made;
  }();
  const Words wrong(1);
  wrong[0] = 0;
  struct Live {
    std::size_t bytes;
    std::uint64_t value;
    std::size_t in;
  };
  std::map<CUdeviceptr, Live> live;
  std::uint64_t live_bytes = 0;
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  const auto end = [&](std::map<CUdeviceptr, Live>::iterator which) {
    const auto [address, memory] = *which;
    const CUstream in = *streams[memory.in];
    launch(in, check_words, {words_at(address), memory.value, wrong.data()}, memory.bytes);
    WHERRY_TRY(cuMemFreeAsync(address, in));
    live_bytes -= memory.bytes;
    live.erase(which);
  };
  for (std::uint64_t step = scaled(2000); step > 0; --step) {
    if (pick(50) == 0) WHERRY_TRY(cuStreamSynchronize(*streams[pick(streams.size())]));
    if (pick(100) == 0) WHERRY_TRY(cuMemPoolTrimTo(pool, pick(2 * slab)));
    if (!live.empty() && pick(5) < 2) {
      end(std::next(live.begin(), static_cast<long>(pick(live.size()))));
      continue;
    }
    const std::size_t bytes = (1 + pick(1 << pick(10))) * page_bytes;
    const std::size_t in = pick(streams.size());
    CUdeviceptr address = 0;
    const CUresult result = cuMemAllocFromPoolAsync(&address, bytes, pool, *streams[in]);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      if (!live.empty()) end(live.begin());
      continue;
    }
    REQUIRE(result == CUDA_SUCCESS);
    const auto next = live.lower_bound(address);
    REQUIRE((next == live.end() || address + bytes <= next->first));
    REQUIRE((next == live.begin() ||
             std::prev(next)->first + std::prev(next)->second.bytes <= address));
    live[address] = {bytes, random(), in};
    live_bytes += bytes;
    launch(*streams[in], fill, {words_at(address), live[address].value, nullptr}, bytes);
    REQUIRE(pool.used() >= live_bytes);
    REQUIRE(pool.reserved() <= 2 * slab);
  }
  WHERRY_TRY(cuCtxSynchronize());
  CHECK(pool.used() == live_bytes);
  while (!live.empty()) end(live.begin());
  WHERRY_TRY(cuCtxSynchronize());
  CHECK(wrong[0] == 0);
  CHECK(pool.used() == 0);
  CHECK(pool.reserved() == 0);
}

TEST_CASE("a destroyed pool exists while its memory is in use", "[system]") {
  auto pool = std::make_unique<Pool>();
  const CUdeviceptr address = pool->allocate(mebibyte, stream());
  const CUmemoryPool handle = *pool;
  pool = nullptr;
  CHECK(cuMemPoolTrimTo(handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr none = 0;
  CHECK(cuMemAllocFromPoolAsync(&none, 1, handle, stream()) == CUDA_ERROR_INVALID_VALUE);
  stage().write(device0, words_at(address), 9);
  CHECK(stage().read(device0, words_at(address)) == 9);
  CHECK(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == handle);
  WHERRY_TRY(cuMemFreeAsync(address, stream()));
  WHERRY_TRY(cuStreamSynchronize(stream()));
  CHECK(stage().residents(words_at(address)) == 0);
}

TEST_CASE("memory that pools keep for later is available to other allocations", "[system]") {
  const Pool pool;
  pool.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~std::uint64_t{0});
  WHERRY_TRY(cuMemFreeAsync(pool.allocate(64 * mebibyte, stream()), stream()));
  WHERRY_TRY(cuStreamSynchronize(stream()));
  CHECK(pool.reserved() == 2 * slab);
  CUdeviceptr address = 0;
  SECTION("cuMemAlloc") {
    REQUIRE(cuMemAlloc(&address, 64 * mebibyte) == CUDA_SUCCESS);
    CHECK(pool.reserved() == 0);
  }
  SECTION("another pool") {
    const Pool second;
    address = second.allocate(64 * mebibyte, stream());
    CHECK(pool.reserved() == 0);
  }
  CHECK(cuMemFree(address) == CUDA_SUCCESS);
}

TEST_CASE("other devices access a pool as long as they have access, peers or not", "[system]") {
  const Pool pool;
  const auto let_in = [&](CUmemAccess_flags flags) {
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device1}, flags};
    WHERRY_TRY(cuMemPoolSetAccess(pool, &access, 1));
  };
  const CUdeviceptr before = pool.allocate(mebibyte, stream());
  WHERRY_TRY(cuStreamSynchronize(stream()));
  let_in(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUdeviceptr after = pool.allocate(40 * mebibyte, stream(device1));
  for (const CUdeviceptr address : {before, after}) {
    stage().write(device1, words_at(address), 4);
    CHECK(stage().read(device0, words_at(address)) == 4);
    CHECK(stage().residents(words_at(address)) == bit_of(device0));
  }
  let_in(CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CHECK(stage().witness().mappers(words_at(before)) == bit_of(device0));
  make_current(device1);
  WHERRY_TRY(cuCtxEnablePeerAccess(stage().session().context(device0), 0));
  stage().session().launch(device1, 1, [word = words_at(after)](std::size_t) { *word = 1; });
  CHECK(stage().session().wait(device1) == CUDA_ERROR_ILLEGAL_ADDRESS);
  stage().session().reset(device1);
  CHECK(stage().read(device0, words_at(after)) == 4);
  make_current();
  WHERRY_TRY(cuMemFree(before));
  WHERRY_TRY(cuMemFree(after));
}

TEST_CASE("memory of pools survives its device, and frees that were still queued are done",
          "[system]") {
  const Pool pool;
  const CUdeviceptr kept = pool.allocate(mebibyte, stream());
  const CUdeviceptr leaves = pool.allocate(mebibyte, stream());
  stage().write(device0, words_at(kept), 17);
  const bool killed = GENERATE(false, true);
  const Busy busy(stream());
  busy.wait_until_begun();
  WHERRY_TRY(cuMemFreeAsync(leaves, stream()));
  CHECK(pool.used() == 2 * mebibyte);
  if (killed) {
    const pid_t process = device_process(device0);
    ::kill(process, SIGKILL);
    REQUIRE(ends_within(process, 5000));
    CHECK(stage().session().wait(device0) == CUDA_ERROR_LAUNCH_FAILED);
    CUdeviceptr none = 1;
    CHECK(cuMemAllocFromPoolAsync(&none, 1, pool, stream()) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(none == 0);
    CHECK(cuMemFreeAsync(kept, stream()) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(is_known(kept));
  }
  stage().session().reset(device0);
  CHECK(pool.used() == mebibyte);
  CHECK(stage().read(device0, words_at(kept)) == 17);
  WHERRY_TRY(cuMemFreeAsync(kept, stream()));
  WHERRY_TRY(cuStreamSynchronize(stream()));
  CHECK(pool.reserved() == 0);
}

TEST_CASE("frees in a context that is destroyed are done", "[system]") {
  const Pool pool;
  CUcontext context = nullptr;
  WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, device0));
  const CUdeviceptr kept = pool.allocate(mebibyte, nullptr);
  WHERRY_TRY(cuMemFreeAsync(pool.allocate(mebibyte, nullptr), nullptr));
  WHERRY_TRY(cuCtxDestroy(context));
  make_current();
  CHECK(pool.used() == mebibyte);
  CHECK(is_known(kept));
  WHERRY_TRY(cuMemFreeAsync(kept, stream()));
}

}  // namespace wherry::test::memory_pool_test
