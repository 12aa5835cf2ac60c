// Results of prefetches and discards for right and wrong arguments, and attributes afterwards.
// Where a real driver's result was recorded, the test requires the same result.
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <array>
#include <initializer_list>
#include <thread>
#include <vector>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/locations.h"
#include "support/session.h"

namespace wherry::test::locations::prefetch_test {

namespace {

constexpr std::size_t page = 4096;

// Device 2 does not support concurrent access with the host.
const Session& session() {
  static const Session the_session("capacity=16M;capacity=16M;capacity=16M,concurrent=0");
  return the_session;
}

constexpr CUmemLocation of_type(int type) {
  return {static_cast<CUmemLocationType>(type), 0};
}

// The last prefetch location of the whole range: number, type and id.
struct Last {
  int number;
  int type;
  int id;

  bool operator==(const Last&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Last& last) {
  return out << last.number << " type " << last.type << " id " << last.id;
}
constexpr Last never{CU_DEVICE_INVALID, CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

int ask(CUmem_range_attribute attribute, CUdeviceptr address, std::size_t bytes) {
  int value = -77;
  WHERRY_TRY(cuMemRangeGetAttribute(&value, sizeof value, attribute, address, bytes));
  return value;
}
Last last_prefetch(CUdeviceptr address, std::size_t bytes) {
  return {ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address, bytes),
          ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, address, bytes),
          ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID, address, bytes)};
}

class Pages {
 public:
  explicit Pages(std::size_t bytes) : memory_((session(), bytes)) {}

  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(memory_.data()); }
  std::size_t bytes() const { return memory_.bytes(); }
  Last last() const { return last_prefetch(address(), bytes()); }
  // The processor's number in the last prefetch location of each page.
  std::vector<int> by_page() const {
    std::vector<int> all;
    for (std::size_t at = 0; at < bytes(); at += page)
      all.push_back(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address() + at, 1));
    return all;
  }
  CUresult prefetch(CUmemLocation where, unsigned flags = 0) const {
    return cuMemPrefetchAsync(address(), bytes(), where, flags, session().stream(0));
  }

 private:
  Managed<unsigned char> memory_;
};

// The arguments of a batch call, valid unless a test changes them. Each range is all pages of one
// allocation.
struct Batch {
  std::vector<CUdeviceptr> firsts;
  std::vector<std::size_t> sizes;
  std::vector<CUmemLocation> where{device(0)};
  std::vector<std::size_t> from{0};
  unsigned long long flags = 0;
  CUstream stream = session().stream(0);

  explicit Batch(std::initializer_list<const Pages*> ranges) {
    for (const Pages* pages : ranges) {
      firsts.push_back(pages->address());
      sizes.push_back(pages->bytes());
    }
  }
};

using BatchCall = CUresult (*)(Batch&);
CUresult prefetch_batch(Batch& batch) {
  return cuMemPrefetchBatchAsync(batch.firsts.data(), batch.sizes.data(), batch.firsts.size(),
                                 batch.where.data(), batch.from.data(), batch.where.size(),
                                 batch.flags, batch.stream);
}
CUresult discard_and_prefetch_batch(Batch& batch) {
  return cuMemDiscardAndPrefetchBatchAsync(
      batch.firsts.data(), batch.sizes.data(), batch.firsts.size(), batch.where.data(),
      batch.from.data(), batch.where.size(), batch.flags, batch.stream);
}
CUresult discard_batch(Batch& batch) {
  return cuMemDiscardBatchAsync(batch.firsts.data(), batch.sizes.data(), batch.firsts.size(),
                                batch.flags, batch.stream);
}
constexpr std::array<BatchCall, 2> prefetching_batches{prefetch_batch, discard_and_prefetch_batch};
constexpr std::array<BatchCall, 3> all_batches{prefetch_batch, discard_and_prefetch_batch,
                                               discard_batch};

void kernel_that_fails(const void*, std::size_t, std::size_t) {
  __builtin_trap();
}

}  // namespace

TEST_CASE("each existing location can be prefetched to, and is reported as it was given", "[api]") {
  const Pages pages(64 * 1024);
  CHECK(pages.last() == never);
  CHECK(pages.prefetch(device(1)) == CUDA_SUCCESS);
  CHECK(pages.last() == Last{1, CU_MEM_LOCATION_TYPE_DEVICE, 1});
  for (const int ignored : {0, 7, -1}) {
    CHECK(pages.prefetch({CU_MEM_LOCATION_TYPE_HOST, ignored}) == CUDA_SUCCESS);
    CHECK(pages.last() == Last{-1, CU_MEM_LOCATION_TYPE_HOST, -1});
  }
  const int node = first_host_node();
  CHECK(pages.prefetch(host_node(node)) == CUDA_SUCCESS);
  CHECK(pages.last() == Last{-1, CU_MEM_LOCATION_TYPE_HOST_NUMA, node});
  CHECK(pages.prefetch(current_node) == CUDA_SUCCESS);
  CHECK(pages.last() == Last{-1, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 5});
  WHERRY_TRY(session().wait(0));
}

TEST_CASE("a device that does not exist has its own error code, other locations are invalid values",
          "[api]") {
  const Pages pages(page);
  for (const int invalid : {-2, -1, 3, 99})
    CHECK(pages.prefetch(device(invalid)) == CUDA_ERROR_INVALID_DEVICE);
  for (const int invalid : {-1, 9999})
    CHECK(pages.prefetch(host_node(invalid)) == CUDA_ERROR_INVALID_VALUE);
  for (const int type : {0, 5, 99, -1, 0x7fffffff})
    CHECK(pages.prefetch(of_type(type)) == CUDA_ERROR_INVALID_VALUE);
  for (const unsigned flags : {1u, 2u, 0xffffffffu}) {
    CHECK(pages.prefetch(host, flags) == CUDA_ERROR_INVALID_VALUE);
    CHECK(pages.prefetch(device(99), flags) == CUDA_ERROR_INVALID_VALUE);
  }
  // An invalid range is reported before an invalid device.
  CHECK(cuMemPrefetchAsync(pages.address(), 0, device(99), 0, session().stream(0)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemPrefetchAsync(0, page, device(99), 0, session().stream(0)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(pages.last() == never);
}

TEST_CASE("a prefetch needs devices that are accessible concurrently with the host", "[api]") {
  const Pages pages(page);
  CHECK(pages.prefetch(device(2)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuMemPrefetchAsync(pages.address(), page, host, 0, session().stream(2)) ==
        CUDA_ERROR_INVALID_DEVICE);
  for (const BatchCall call : all_batches) {
    Batch on_it({&pages});
    on_it.stream = session().stream(2);
    CHECK(call(on_it) == CUDA_ERROR_INVALID_DEVICE);
  }
  for (const BatchCall call : prefetching_batches) {
    Batch to_it({&pages});
    to_it.where = {device(2)};
    CHECK(call(to_it) == CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(pages.last() == never);
}

TEST_CASE("the location is recorded for the pages that a prefetched range overlaps, and no others",
          "[api]") {
  struct Case {
    std::size_t offset, count;
    std::vector<int> pages;
  };
  const int no = CU_DEVICE_INVALID;
  for (const auto& [offset, count, expected] :
       {Case{1, 1, {0, no, no, no}}, Case{4095, 2, {0, 0, no, no}}, Case{1, 4095, {0, no, no, no}},
        Case{1, 4096, {0, 0, no, no}}, Case{0, 4096, {0, no, no, no}},
        Case{0, 4097, {0, 0, no, no}}, Case{4096, 4096, {no, 0, no, no}},
        Case{2048, 4096, {0, 0, no, no}}, Case{100, 12000, {0, 0, 0, no}},
        Case{16383, 1, {no, no, no, 0}}, Case{0, 16384, {0, 0, 0, 0}}}) {
    CAPTURE(offset, count);
    const Pages pages(4 * page);
    CHECK(cuMemPrefetchAsync(pages.address() + offset, count, device(0), 0, session().stream(0)) ==
          CUDA_SUCCESS);
    CHECK(pages.by_page() == expected);
  }
  // Pages with different locations have no common one. The last call counts.
  const Pages pages(4 * page);
  CHECK(pages.prefetch(device(0)) == CUDA_SUCCESS);
  CHECK(cuMemPrefetchAsync(pages.address(), 2 * page, host, 0, session().stream(0)) ==
        CUDA_SUCCESS);
  CHECK(pages.last() == never);
  CHECK(pages.by_page() == std::vector<int>{-1, -1, 0, 0});
  CHECK(pages.prefetch(device(0)) == CUDA_SUCCESS);
  CHECK(pages.last() == Last{0, CU_MEM_LOCATION_TYPE_DEVICE, 0});
}

TEST_CASE("an invalid range cannot be prefetched, and a range that wraps prefetches nothing",
          "[api]") {
  const Pages pages(5000);
  const CUdeviceptr at = pages.address();
  int on_the_stack = 0;
  const auto elsewhere = reinterpret_cast<CUdeviceptr>(&on_the_stack);
  struct Range {
    CUdeviceptr first;
    std::size_t count;
  };
  for (const auto& [first, count] :
       {Range{at, 0}, Range{at, 5001}, Range{at, 8192}, Range{at + page, page}, Range{at + 5000, 1},
        Range{at - 1, 1}, Range{at - 1, 2}, Range{0, page}, Range{elsewhere, 4}}) {
    CAPTURE(first - at, count);
    CHECK(cuMemPrefetchAsync(first, count, host, 0, session().stream(0)) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  for (const auto& [first, count] :
       {Range{at, ~std::size_t{0}}, Range{at, -page}, Range{at + page, -page}}) {
    CAPTURE(first - at, count);
    CHECK(cuMemPrefetchAsync(first, count, host, 0, session().stream(0)) == CUDA_SUCCESS);
  }
  CHECK(pages.last() == never);
}

TEST_CASE("two neighbouring allocations cannot be prefetched as one", "[api]") {
  session();
  std::vector<CUdeviceptr> blocks(4);
  for (CUdeviceptr& block : blocks)
    WHERRY_TRY(cuMemAllocManaged(&block, 2 << 20, CU_MEM_ATTACH_GLOBAL));
  for (const CUdeviceptr block : blocks) {
    const std::array<std::size_t, 3> sizes{4 << 20, (2 << 20) + 1, (2 << 20) + page};
    for (const std::size_t size : sizes)
      CHECK(cuMemPrefetchAsync(block, size, device(0), 0, session().stream(0)) ==
            CUDA_ERROR_INVALID_VALUE);
    CHECK(last_prefetch(block, 2 << 20) == never);
  }
  for (const CUdeviceptr block : blocks) WHERRY_TRY(cuMemFree(block));
}

TEST_CASE("every stream accepts prefetches, and invalid streams are refused", "[api]") {
  CUstream blocking = nullptr;
  session();
  WHERRY_TRY(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  for (const CUstream stream :
       {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, session().stream(0), blocking}) {
    const Pages pages(page);
    CHECK(cuMemPrefetchAsync(pages.address(), page, device(0), 0, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(pages.last().number == 0);
  }
  WHERRY_TRY(cuStreamDestroy(blocking));
  const Pages pages(page);
  CHECK(cuMemPrefetchAsync(pages.address(), page, host, 0, blocking) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(pages.last() == never);
  std::thread([&] {
    CHECK(cuMemPrefetchAsync(pages.address(), page, host, 0, nullptr) ==
          CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemPrefetchAsync(pages.address(), page, host, 0, session().stream(0)) == CUDA_SUCCESS);
  }).join();
  CHECK(pages.last().number == -1);
}

TEST_CASE("each range of a batch goes to its own location", "[api]") {
  for (const BatchCall call : prefetching_batches) {
    const Pages a(16 * page), b(16 * page), c(16 * page), d(16 * page);
    Batch batch({&a, &b, &c, &d});
    batch.where = {device(0), host};
    batch.from = {0, 2};
    CHECK(call(batch) == CUDA_SUCCESS);
    CHECK(a.last().number == 0);
    CHECK(b.last().number == 0);
    CHECK(c.last().number == -1);
    CHECK(d.last().number == -1);

    batch.where = {device(1), host, device(0), current_node};
    batch.from = {0, 1, 2, 3};
    CHECK(call(batch) == CUDA_SUCCESS);
    CHECK(a.last().number == 1);
    CHECK(b.last().number == -1);
    CHECK(c.last().number == 0);
    CHECK(d.last() == Last{-1, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 5});
  }
}

TEST_CASE("unordered locations of a batch are used as a driver uses them", "[api]") {
  for (const BatchCall call : prefetching_batches) {
    const Pages a(page), b(page), c(page);
    Batch batch({&a, &b, &c});
    batch.where = {device(0), host};
    batch.from = {0, 0};
    CHECK(call(batch) == CUDA_SUCCESS);
    CHECK(a.last().number == 0);
    CHECK(b.last().number == 0);
    batch.where = {device(0), host, device(1)};
    batch.from = {0, 2, 1};
    CHECK(call(batch) == CUDA_SUCCESS);
    CHECK(a.last().number == 0);
    CHECK(b.last().number == 0);
    CHECK(c.last().number == -1);
  }
}

TEST_CASE("a batch with a wrong argument is refused as a whole", "[api]") {
  const Pages a(page), b(page);
  for (const BatchCall call : all_batches) {
    Batch nothing({});
    CHECK(call(nothing) == CUDA_ERROR_INVALID_VALUE);
    for (const unsigned long long flags : {1ull, 0xffffffffull, 1ull << 32}) {
      Batch batch({&a});
      batch.flags = flags;
      CHECK(call(batch) == CUDA_ERROR_INVALID_VALUE);
    }
    for (const CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY}) {
      Batch batch({&a});
      batch.stream = stream;
      CHECK(call(batch) == CUDA_ERROR_INVALID_VALUE);
    }
  }
  for (const BatchCall call : prefetching_batches) {
    const auto refused = [&](std::vector<CUmemLocation> where, std::vector<std::size_t> from) {
      Batch batch({&a, &b});
      batch.where = std::move(where);
      batch.from = std::move(from);
      return call(batch) == CUDA_ERROR_INVALID_VALUE;
    };
    CHECK(refused({}, {}));
    CHECK(refused({device(0), device(0), device(0)}, {0, 1, 1}));
    CHECK(refused({device(0)}, {1}));
    CHECK(refused({device(0), host}, {0, 2}));
    for (const CUmemLocation& wrong :
         {device(99), device(-1), device(3), host_node(9999), of_type(0), of_type(99)}) {
      CHECK(refused({wrong}, {0}));
      CHECK(refused({device(0), wrong}, {0, 1}));
    }
  }
  Batch right({&a});
  const CUstream stream = session().stream(0);
  for (const auto call : {cuMemPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync}) {
    CHECK(call(nullptr, right.sizes.data(), 1, right.where.data(), right.from.data(), 1, 0,
               stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(right.firsts.data(), nullptr, 1, right.where.data(), right.from.data(), 1, 0,
               stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(right.firsts.data(), right.sizes.data(), 1, nullptr, right.from.data(), 1, 0,
               stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(right.firsts.data(), right.sizes.data(), 1, right.where.data(), nullptr, 1, 0,
               stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(call(nullptr, nullptr, 0, nullptr, nullptr, 0, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemDiscardBatchAsync(nullptr, right.sizes.data(), 1, 0, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemDiscardBatchAsync(right.firsts.data(), nullptr, 1, 0, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(a.last() == never);
  CHECK(b.last() == never);
}

TEST_CASE("an invalid range ends a batch, and the ranges before it are prefetched", "[api]") {
  int on_the_stack = 0;
  for (const BatchCall call : prefetching_batches) {
    const Pages first(page), last(page);
    for (const auto& [address, size] : {std::pair<CUdeviceptr, std::size_t>{last.address(), 0},
                                        {last.address(), page + 1},
                                        {0, page},
                                        {reinterpret_cast<CUdeviceptr>(&on_the_stack), 4}}) {
      const Pages before(page);
      Batch batch({&before, &first, &last});
      batch.firsts[1] = address;
      batch.sizes[1] = size;
      CHECK(call(batch) == CUDA_ERROR_INVALID_VALUE);
      CHECK(before.last().number == 0);
      CHECK(last.last() == never);
    }
  }
}

TEST_CASE("a batch records the pages that its ranges overlap, twice or in part", "[api]") {
  for (const BatchCall call : prefetching_batches) {
    const Pages pages(3 * page);
    Batch part({&pages});
    part.firsts[0] += 100;
    part.sizes[0] = page;
    CHECK(call(part) == CUDA_SUCCESS);
    CHECK(pages.by_page() == std::vector<int>{0, 0, -2});
    Batch twice({&pages, &pages});
    CHECK(call(twice) == CUDA_SUCCESS);
    CHECK(pages.by_page() == std::vector<int>{0, 0, 0});
  }
}

TEST_CASE("a discard changes no attribute", "[api]") {
  const Pages pages(64 * 1024);
  WHERRY_TRY(cuMemAdvise(pages.address(), pages.bytes(), CU_MEM_ADVISE_SET_READ_MOSTLY, host));
  WHERRY_TRY(
      cuMemAdvise(pages.address(), pages.bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(1)));
  CHECK(pages.prefetch(device(0)) == CUDA_SUCCESS);
  Batch batch({&pages});
  CHECK(discard_batch(batch) == CUDA_SUCCESS);
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(pages.last().number == 0);
  CHECK(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pages.address(), pages.bytes()) == 1);
  CHECK(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, pages.address(), pages.bytes()) == 1);
  auto* const word = reinterpret_cast<volatile unsigned*>(pages.address());
  *word = 42;
  session().run(0, [word] { *word = *word + 1; });
  CHECK(*word == 43);
}

TEST_CASE("bytes next to a discarded range keep their values", "[api]") {
  const Managed<unsigned char> memory((session(), 3 * page));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<unsigned char>(i % 251);
  CUdeviceptr first = reinterpret_cast<CUdeviceptr>(memory.data()) + 100;
  std::size_t size = 2 * page;  // one whole page, and parts of two
  WHERRY_TRY(cuMemDiscardBatchAsync(&first, &size, 1, 0, session().stream(0)));
  CUmemLocation where = device(0);
  std::size_t from = 0;
  WHERRY_TRY(cuMemDiscardAndPrefetchBatchAsync(&first, &size, 1, &where, &from, 1, 0,
                                               session().stream(0)));
  WHERRY_TRY(session().wait(0));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (i < 100 || i >= 100 + size) wrong += memory[i] != i % 251;
  CHECK(wrong == 0);
}

TEST_CASE("prefetches run in stream order, and the host does not wait for them", "[api]") {
  // A host function blocks the stream until the test has seen that the call returned.
  static std::atomic<bool> go;
  go = false;
  const Pages pages(page);
  WHERRY_TRY(cuLaunchHostFunc(
      session().stream(0),
      [](void*) {
        while (!go) std::this_thread::yield();
      },
      nullptr));
  CHECK(pages.prefetch(device(0)) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(session().stream(0)) == CUDA_ERROR_NOT_READY);
  CHECK(pages.last().number == 0);
  go = true;
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(session().stream(0)) == CUDA_SUCCESS);
}

TEST_CASE("memory with a pending prefetch can be freed, which removes its location, too", "[api]") {
  session();
  CUdeviceptr freed = 0;
  WHERRY_TRY(cuMemAllocManaged(&freed, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  for (int i = 0; i < 20; ++i)
    CHECK(cuMemPrefetchAsync(freed, 1 << 20, i % 2 == 0 ? device(0) : host, 0,
                             session().stream(0)) == CUDA_SUCCESS);
  CHECK(cuMemFree(freed) == CUDA_SUCCESS);
  CHECK(cuMemPrefetchAsync(freed, page, host, 0, session().stream(0)) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr fresh = 0;
  WHERRY_TRY(cuMemAllocManaged(&fresh, 1 << 20, CU_MEM_ATTACH_GLOBAL));
  CHECK(last_prefetch(fresh, 1 << 20) == never);
  WHERRY_TRY(cuMemFree(fresh));
}

TEST_CASE("the runtime API and the C++ names prefetch, too", "[api]") {
  const Pages pages(16 * page);
  auto* const data = reinterpret_cast<unsigned char*>(pages.address());
  const cudaMemLocation there{cudaMemLocationTypeDevice, 1};
  CHECK(cudaMemPrefetchAsync(data, page, there, 0, session().stream(0)) == cudaSuccess);
  CHECK(pages.by_page()[0] == 1);
  CHECK(cudaMemPrefetchAsync(data + page, page, {cudaMemLocationTypeHost, 0}, 0) == cudaSuccess);
  CHECK(pages.by_page()[1] == -1);
  CHECK(cudaMemPrefetchAsync(data, page, {cudaMemLocationTypeDevice, 99}, 0) ==
        cudaErrorInvalidDevice);
  CHECK(cudaMemPrefetchAsync_v2(data, page, there, 1) == cudaErrorInvalidValue);

  void* first = data + 2 * page;
  std::size_t size = page;
  cudaMemLocation where = there;
  std::size_t from = 0;
  const CUstream stream = session().stream(0);
  CHECK(cudaMemPrefetchBatchAsync(&first, &size, 1, &where, &from, 1, 0, stream) == cudaSuccess);
  CHECK(pages.by_page()[2] == 1);
  first = data + 3 * page;
  CHECK(cudaMemDiscardAndPrefetchBatchAsync(&first, &size, 1, &where, &from, 1, 0, stream) ==
        cudaSuccess);
  CHECK(pages.by_page()[3] == 1);
  CHECK(cudaMemDiscardBatchAsync(&first, &size, 1, 0, stream) == cudaSuccess);
  CHECK(cudaMemDiscardBatchAsync(&first, &size, 1, 0, nullptr) == cudaErrorInvalidValue);

  const wherry::device device1(1);
  const wherry::stream in(device1);
  wherry::prefetch(std::span(data + 4 * page, page), device1, in);
  wherry::prefetch(std::span(data + 5 * page, page), wherry::host, in);
  wherry::prefetch(std::span<unsigned char>(), wherry::host, in);
  CHECK(pages.by_page()[4] == 1);
  CHECK(pages.by_page()[5] == -1);
  CHECK_THROWS_AS(wherry::prefetch(std::span(data, pages.bytes() + 1), wherry::host, in),
                  wherry::error);
  WHERRY_TRY(cuCtxSynchronize());
}

TEST_CASE("a context that has failed prefetches nothing", "[api]") {
  const Pages pages(page);
  WHERRY_TRY(wherryLaunchKernel(session().stream(1), kernel_that_fails, nullptr, 0, 1));
  const CUresult failed = session().wait(1);
  CHECK(failed != CUDA_SUCCESS);
  CHECK(cuMemPrefetchAsync(pages.address(), page, host, 0, session().stream(1)) == failed);
  for (const BatchCall call : all_batches) {
    Batch batch({&pages});
    batch.stream = session().stream(1);
    CHECK(call(batch) == failed);
  }
  CHECK(pages.last() == never);
  // The context of another device accepts prefetches to the failed device, whose memory still
  // works.
  CHECK(pages.prefetch(device(1)) == CUDA_SUCCESS);
  CHECK(session().wait(0) == CUDA_SUCCESS);
}

}  // namespace wherry::test::locations::prefetch_test
