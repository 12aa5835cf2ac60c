// Memory that the library did not allocate, where a device shares the program's page table: advice,
// prefetches and their attributes, and that the memory itself stays as it was.

// Version 12: the old and the new signatures of functions that CUDA 13 changed are both declared.
#define WHERRY_CUDA_API 12
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/kernel_view.h"
#include "support/locations.h"
#include "support/session.h"
#include "support/waiting.h"

using namespace wherry::test;
using namespace wherry::test::locations;

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t pages_long = 16;
constexpr std::size_t length = pages_long * page;

// Device 1 has a page table of its own, and device 2 does not support concurrent access.
const Session& session() {
  static const Session the_session(
      "kind=coherent,capacity=16M;capacity=16M;kind=coherent,capacity=16M,concurrent=0");
  return the_session;
}

// A file without a name, with as many bytes as the ranges of these tests, all 'f'.
int make_file() {
  const int file = ::memfd_create("system_memory_test", MFD_CLOEXEC);
  expect(file >= 0, "memfd_create");
  const std::vector<char> text(length, 'f');
  expect(::write(file, text.data(), length) == static_cast<ssize_t>(length), "write");
  return file;
}

// A mapping, unmapped at the end of the scope.
class Mapped {
 public:
  explicit Mapped(int protection = PROT_READ | PROT_WRITE, int flags = MAP_PRIVATE | MAP_ANONYMOUS,
                  int file = -1, void* where = nullptr, std::size_t bytes = length)
      : bytes_(bytes) {
    session();
    data_ = static_cast<char*>(::mmap(where, bytes, protection, flags, file, 0));
    expect(data_ != MAP_FAILED, "mmap");
  }
  ~Mapped() { unmap(); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void unmap() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = nullptr;
  }

 private:
  std::size_t bytes_;
  char* data_;
};

CUdeviceptr address_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

CUresult advise(const void* memory, CUmem_advise advice, CUmemLocation where = host,
                std::size_t bytes = length) {
  return cuMemAdvise_v2(address_of(memory), bytes, advice, where);
}

CUresult prefetch(const void* memory, CUmemLocation where, std::size_t bytes = length,
                  CUstream stream = nullptr) {
  return cuMemPrefetchAsync_v2(address_of(memory), bytes, where, 0, stream);
}
void bring(const void* memory, CUmemLocation where, std::size_t bytes = length) {
  WHERRY_TRY(prefetch(memory, where, bytes));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

using Values = std::array<int, all_attributes.size()>;
constexpr Values nothing{0, -2, -2, -2, 0, -2, 0, -2};

// The values of all attributes, in the order of `all_attributes`.
CUresult ask(const void* memory, std::size_t bytes, Values& values) {
  std::array<void*, std::tuple_size_v<Values>> data{};
  std::array<std::size_t, std::tuple_size_v<Values>> sizes{};
  auto attributes = all_attributes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    data[i] = &values[i];
    sizes[i] = sizeof values[i];
  }
  return cuMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), attributes.size(),
                                 address_of(memory), bytes);
}
Values everything(const void* memory, std::size_t bytes = length) {
  Values values{};
  WHERRY_TRY(ask(memory, bytes, values));
  return values;
}
bool is_refused(const void* memory, std::size_t bytes = length) {
  Values values = nothing;
  return ask(memory, bytes, values) == CUDA_ERROR_INVALID_VALUE;
}

// How many of the pages are present in memory.
std::size_t present_pages(const void* memory, std::size_t bytes = length) {
  std::vector<unsigned char> present(bytes / page);
  expect(::mincore(const_cast<void*>(memory), bytes, present.data()) == 0, "mincore");
  std::size_t count = 0;
  for (const unsigned char each : present) count += each & 1u;
  return count;
}

// Gives advice, prefetches, and unsets the advice. Requires the documented attributes each time.
void check_answers(const void* memory, std::size_t bytes = length) {
  CHECK(everything(memory, bytes) == nothing);
  CHECK(advise(memory, CU_MEM_ADVISE_SET_READ_MOSTLY, host, bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{1, -2, -2, -2, 0, -2, 0, -2});
  CHECK(advise(memory, CU_MEM_ADVISE_SET_ACCESSED_BY, device(0), bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{1, -2, 0, -2, 0, -2, 0, -2});
  CHECK(advise(memory, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0), bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{1, 0, 0, -2, 1, 0, 0, -2});
  CHECK(prefetch(memory, device(0), bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{1, 0, 0, 0, 1, 0, 1, 0});
  CHECK(prefetch(memory, host, bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{1, 0, 0, -1, 1, 0, 2, -1});
  CHECK(advise(memory, CU_MEM_ADVISE_UNSET_READ_MOSTLY, host, bytes) == CUDA_SUCCESS);
  CHECK(advise(memory, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(0), bytes) == CUDA_SUCCESS);
  CHECK(advise(memory, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host, bytes) == CUDA_SUCCESS);
  CHECK(everything(memory, bytes) == Values{0, -2, -2, -1, 0, -2, 2, -1});
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}

alignas(page) char in_data_segment[length];

// Returns the exit status of a forked process that runs `body`, which calls nothing of the library.
int in_forked_process(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  expect(child > 0 && ::waitpid(child, &status, 0) == child, "fork");
  return status;
}

// A host function that holds a stream until release().
class Gate {
 public:
  explicit Gate(CUstream stream) {
    WHERRY_TRY(cuLaunchHostFunc(
        stream, [](void* self) { static_cast<Gate*>(self)->wait(); }, this));
  }
  ~Gate() { release(); }
  void release() { open_ = true; }

 private:
  void wait() {
    comes_true([this] { return open_.load(); });
  }

  std::atomic<bool> open_ = false;
};

}  // namespace

TEST_CASE("a coherent device accesses all of the program's memory through its page table",
          "[api]") {
  session();
  const auto value = [](CUdevice_attribute attribute, int ordinal) {
    int answer = -777;
    CHECK(cuDeviceGetAttribute(&answer, attribute, ordinal) == CUDA_SUCCESS);
    return answer;
  };
  for (const int ordinal : {0, 1, 2}) {
    CAPTURE(ordinal);
    const int expected = ordinal == 1 ? 0 : 1;
    CHECK(value(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, ordinal) == expected);
    CHECK(value(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, ordinal) ==
          expected);
    cudaDeviceProp properties;
    REQUIRE(cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess);
    CHECK(properties.pageableMemoryAccess == expected);
    CHECK(properties.pageableMemoryAccessUsesHostPageTables == expected);
  }
  CHECK(value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 2) == 0);
  CHECK(value(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0) == value(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 1));
}

TEST_CASE("advice and prefetches are answered for every kind of the program's memory", "[api]") {
  session();
  SECTION("a small and a large piece from malloc") {
    for (const std::size_t bytes : {2 * page, std::size_t{4} << 20}) {
      char* const memory = static_cast<char*>(std::malloc(bytes + page));
      std::memset(memory, 1, bytes + page);
      check_answers(reinterpret_cast<void*>(address_of(memory + page) / page * page), bytes);
      std::free(memory);
    }
  }
  SECTION("mmap") {
    check_answers(Mapped().data());
  }
  SECTION("shared anonymous memory") {
    check_answers(Mapped(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS).data());
  }
  SECTION("read-only memory") {
    check_answers(Mapped(PROT_READ).data());
  }
  SECTION("a variable") {
    check_answers(in_data_segment);
  }
  SECTION("the main thread's stack") {
    alignas(page) char array[length];
    std::memset(array, 1, length);
    check_answers(array);
  }
  SECTION("another thread's stack") {
    std::thread([] {
      WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
      alignas(page) char array[length];
      std::memset(array, 1, length);
      check_answers(array);
    }).join();
  }
  SECTION("files, mapped private and shared, to read and to write") {
    for (const int flags : {MAP_PRIVATE, MAP_SHARED}) {
      for (const int protection : {PROT_READ, PROT_READ | PROT_WRITE}) {
        const int file = make_file();
        const Mapped memory(protection, flags, file);
        check_answers(memory.data());
        CHECK(memory.data()[length - 1] == 'f');
        ::close(file);
      }
    }
  }
}

TEST_CASE("advice on the program's memory covers whole pages, and each page has its own", "[api]") {
  const Mapped memory;
  CHECK(advise(memory.data() + 3 * page + 100, CU_MEM_ADVISE_SET_READ_MOSTLY, host, page) ==
        CUDA_SUCCESS);
  CHECK(everything(memory.data() + 3 * page, 2 * page)[0] == 1);
  CHECK(everything(memory.data() + 2 * page, page)[0] == 0);
  CHECK(everything(memory.data() + 5 * page, page)[0] == 0);
  CHECK(everything(memory.data())[0] == 0);

  bring(memory.data() + 100, device(0), 1);
  CHECK(everything(memory.data(), page)[3] == 0);
  CHECK(everything(memory.data())[3] == CU_DEVICE_INVALID);

  std::array<int, 3> accessed{};
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_ACCESSED_BY, host) == CUDA_SUCCESS);
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_ACCESSED_BY, device(0)) == CUDA_SUCCESS);
  CHECK(cuMemRangeGetAttribute(accessed.data(), sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                               address_of(memory.data()), length) == CUDA_SUCCESS);
  CHECK(accessed == std::array{0, CU_DEVICE_CPU, CU_DEVICE_INVALID});
}

TEST_CASE("nodes of the host are locations of the program's memory, too", "[api]") {
  const Mapped memory;
  const int node = first_host_node();
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_node(node)) ==
        CUDA_SUCCESS);
  CHECK(everything(memory.data()) == Values{0, -1, -2, -2, 3, node, 0, -2});
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, current_node) == CUDA_SUCCESS);
  CHECK(everything(memory.data())[4] == CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(prefetch(memory.data(), host_node(node)) == CUDA_SUCCESS);
  CHECK(everything(memory.data())[6] == CU_MEM_LOCATION_TYPE_HOST_NUMA);
  CHECK(everything(memory.data())[7] == node);
  CHECK(prefetch(memory.data(), current_node) == CUDA_SUCCESS);
  CHECK(everything(memory.data())[6] == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("a device that is named for the program's memory must be able to access it", "[api]") {
  const Mapped memory;
  for (const int ordinal : {1, 2}) {
    CAPTURE(ordinal);
    for (const CUmem_advise advice :
         {CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY}) {
      CHECK(advise(memory.data(), advice, device(ordinal)) == CUDA_ERROR_INVALID_DEVICE);
      CHECK(cuMemAdvise(address_of(memory.data()), length, advice, ordinal) ==
            CUDA_ERROR_INVALID_DEVICE);
    }
    CHECK(prefetch(memory.data(), device(ordinal)) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuMemPrefetchAsync(address_of(memory.data()), length, ordinal, nullptr) ==
          CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(advise(memory.data(), CU_MEM_ADVISE_UNSET_ACCESSED_BY, device(1)) ==
        CUDA_ERROR_INVALID_DEVICE);
  // Advice for the host and a prefetch to the host need no device that can access the memory.
  CHECK(advise(memory.data(), CU_MEM_ADVISE_UNSET_ACCESSED_BY, host) == CUDA_SUCCESS);
  CHECK(prefetch(memory.data(), host, length, session().stream(1)) == CUDA_SUCCESS);
  CHECK(session().wait(1) == CUDA_SUCCESS);
  CHECK(everything(memory.data()) == Values{0, -2, -2, -1, 0, -2, 2, -1});

  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(7)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAdvise(address_of(memory.data()), length, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 7) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host_node(999)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_ACCESSED_BY, host_node(first_host_node())) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(prefetch(memory.data(), device(7)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(prefetch(memory.data(), host_node(999)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(prefetch(memory.data(), device(2)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(prefetch(memory.data(), host, length, session().stream(2)) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(everything(memory.data()) == Values{0, -2, -2, -1, 0, -2, 2, -1});
}

TEST_CASE("a range that is not mapped as a whole is refused, and nothing changes", "[api]") {
  const Mapped memory;
  char* const middle = memory.data() + length / 2;
  const auto check_refused = [&] {
    CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_ERROR_INVALID_VALUE);
    CHECK(prefetch(memory.data(), device(0)) == CUDA_ERROR_INVALID_VALUE);
    CHECK(is_refused(memory.data()));
    CHECK(everything(memory.data(), length / 2) == nothing);
  };
  SECTION("a hole") {
    REQUIRE(::munmap(middle, page) == 0);
    check_refused();
    CHECK(advise(middle, CU_MEM_ADVISE_SET_READ_MOSTLY, host, page) == CUDA_ERROR_INVALID_VALUE);
  }
  SECTION("memory that the host may not access either") {
    REQUIRE(::mprotect(middle, page, PROT_NONE) == 0);
    check_refused();
    REQUIRE(::mprotect(middle, page, PROT_READ) == 0);
    CHECK(everything(memory.data()) == nothing);
  }
  SECTION("addresses that nothing can be mapped to") {
    for (const std::uintptr_t where : {std::uintptr_t{0}, ~std::uintptr_t{0} - 3 * page}) {
      void* const nowhere = reinterpret_cast<void*>(where);
      CHECK(advise(nowhere, CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_ERROR_INVALID_VALUE);
      CHECK(prefetch(nowhere, device(0)) == CUDA_ERROR_INVALID_VALUE);
      CHECK(is_refused(nowhere));
    }
    for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 62}) {
      CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_READ_MOSTLY, host, bytes) ==
            CUDA_ERROR_INVALID_VALUE);
      CHECK(is_refused(memory.data(), bytes));
    }
    CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_READ_MOSTLY, host, 0) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(prefetch(memory.data(), device(0), 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(is_refused(memory.data(), 0));
  }
}

TEST_CASE("memory that the library allocated or registered is not pageable", "[api]") {
  session();
  const auto check_refused = [](const void* memory, std::size_t bytes) {
    CHECK(advise(memory, CU_MEM_ADVISE_SET_READ_MOSTLY, host, bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(prefetch(memory, device(0), bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(is_refused(memory, bytes));
  };
  SECTION("registered memory, and a range that contains some") {
    const Mapped memory;
    char* const part = memory.data() + 4 * page;
    REQUIRE(cuMemHostRegister(part, page, 0) == CUDA_SUCCESS);
    check_refused(part, page);
    check_refused(memory.data(), length);
    CHECK(everything(memory.data(), 4 * page) == nothing);
    REQUIRE(cuMemHostUnregister(part) == CUDA_SUCCESS);
    CHECK(everything(memory.data()) == nothing);
  }
  SECTION("page-locked memory") {
    void* memory = nullptr;
    REQUIRE(cuMemHostAlloc(&memory, length, 0) == CUDA_SUCCESS);
    check_refused(memory, length);
    REQUIRE(cuMemFreeHost(memory) == CUDA_SUCCESS);
  }
  SECTION("a device's memory") {
    CUdeviceptr memory = 0;
    REQUIRE(cuMemAlloc(&memory, length) == CUDA_SUCCESS);
    check_refused(reinterpret_cast<void*>(memory), length);
    REQUIRE(cuMemFree(memory) == CUDA_SUCCESS);
  }
  SECTION("managed memory and what follows it") {
    const Managed<char> memory(length);
    check_refused(memory.data(), length + (std::size_t{1} << 30));
    CHECK(everything(memory.data()) == nothing);
  }
}

TEST_CASE("a prefetch keeps contents and rights of the program's memory", "[api]") {
  const int file = make_file();
  const Mapped own;
  const Mapped of_file(PROT_READ, MAP_PRIVATE, file);
  std::memset(own.data(), 'o', length);
  REQUIRE(::mprotect(own.data(), 4 * page, PROT_READ) == 0);
  for (int round = 0; round < 20; ++round) {
    for (const CUmemLocation where : {device(0), host}) {
      bring(own.data(), where);
      bring(of_file.data(), where);
    }
  }
  for (std::size_t i = 0; i < length; i += 64) {
    REQUIRE(own.data()[i] == 'o');
    REQUIRE(of_file.data()[i] == 'f');
  }
  CHECK_FALSE(permissions_of(::getpid(), own.data()).write);
  CHECK(permissions_of(::getpid(), own.data() + 4 * page).write);
  CHECK_FALSE(permissions_of(::getpid(), of_file.data()).write);
  ::close(file);
}

TEST_CASE("threads write to the program's memory while it is prefetched", "[api]") {
  constexpr std::size_t words = std::size_t{1} << 19;
  const Mapped memory(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, nullptr,
                      words * sizeof(std::uint32_t));
  auto* const counters = reinterpret_cast<std::uint32_t*>(memory.data());
  std::atomic<bool> stop = false;
  std::array<std::uint32_t, 2> rounds{};
  std::vector<std::thread> writers;
  for (std::size_t lane = 0; lane < rounds.size(); ++lane) {
    writers.emplace_back([&, lane] {
      while (!stop) {
        for (std::size_t i = lane; i < words; i += 128) ++counters[i];
        ++rounds[lane];
      }
    });
  }
  for (int round = 0; round < 30; ++round) {
    WHERRY_TRY(prefetch(memory.data(), device(0), memory.bytes()));
    WHERRY_TRY(prefetch(memory.data(), host, memory.bytes()));
  }
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  stop = true;
  for (std::thread& writer : writers) writer.join();
  for (std::size_t lane = 0; lane < rounds.size(); ++lane)
    for (std::size_t i = lane; i < words; i += 128) REQUIRE(counters[i] == rounds[lane]);
}

TEST_CASE("a prefetch creates private memory that was never touched, and no other", "[api]") {
  SECTION("anonymous memory") {
    const Mapped memory;
    std::memset(memory.data() + 5 * page, 'x', page);
    REQUIRE(present_pages(memory.data()) == 1);
    bring(memory.data(), device(0));
    CHECK(present_pages(memory.data()) == pages_long);
    CHECK(memory.data()[0] == 0);
    CHECK(memory.data()[5 * page] == 'x');
  }
  SECTION("a part of it") {
    const Mapped memory;
    bring(memory.data() + 2 * page, host, 3 * page);
    CHECK(present_pages(memory.data()) == 3);
    CHECK(present_pages(memory.data() + 2 * page, 3 * page) == 3);
  }
  SECTION("read-only memory stays untouched") {
    const Mapped memory(PROT_READ);
    bring(memory.data(), device(0));
    CHECK(present_pages(memory.data()) == 0);
  }
  SECTION("advice creates nothing") {
    const Mapped memory;
    for (const CUmem_advise advice :
         {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
          CU_MEM_ADVISE_SET_ACCESSED_BY})
      CHECK(advise(memory.data(), advice, device(0)) == CUDA_SUCCESS);
    CHECK(present_pages(memory.data()) == 0);
  }
}

TEST_CASE("a prefetch of the program's memory has its turn in the stream", "[api]") {
  const Mapped memory;
  Gate gate(session().stream(0));
  WHERRY_TRY(prefetch(memory.data(), device(0), length, session().stream(0)));
  CHECK(cuStreamQuery(session().stream(0)) == CUDA_ERROR_NOT_READY);
  CHECK(everything(memory.data())[3] == 0);
  CHECK(present_pages(memory.data()) == 0);
  gate.release();
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(present_pages(memory.data()) == pages_long);
}

TEST_CASE("memory that is unmapped or replaced before its prefetch is left alone", "[api]") {
  const Mapped kept;
  Mapped replaced;
  Mapped unmapped;
  char* const place = replaced.data();
  Gate gate(session().stream(0));
  for (const char* memory : {unmapped.data(), replaced.data(), kept.data()})
    WHERRY_TRY(prefetch(memory, device(0), length, session().stream(0)));
  unmapped.unmap();
  replaced.unmap();
  // Other memory at the same address. It is shared: if the prefetch created a page, it would stay.
  const Mapped other(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                     place);
  gate.release();
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(present_pages(other.data()) == 0);
  CHECK(present_pages(kept.data()) == pages_long);
}

TEST_CASE("what was said of memory ends with the memory", "[api]") {
  const int file = make_file();
  Mapped memory;
  char* const place = memory.data();
  const auto say = [&] {
    CHECK(advise(place, CU_MEM_ADVISE_SET_READ_MOSTLY) == CUDA_SUCCESS);
    CHECK(advise(place, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0)) == CUDA_SUCCESS);
    bring(place, device(0));
    CHECK(everything(place) == Values{1, 0, -2, 0, 1, 0, 1, 0});
  };
  say();
  SECTION("a query finds it unmapped, and other memory there later has no advice") {
    memory.unmap();
    CHECK(is_refused(place));
    const Mapped later(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                       -1, place);
    CHECK(everything(place) == nothing);
  }
  SECTION("other anonymous memory is at its place") {
    memory.unmap();
    const Mapped later(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                       -1, place);
    CHECK(everything(place) == nothing);
  }
  SECTION("a large piece from malloc is freed, and allocated again") {
    constexpr std::size_t bytes = std::size_t{8} << 20;
    if (::mallopt(M_MMAP_THRESHOLD, 1 << 20) != 1) {
      WARN("malloc is a sanitizer's, which does not use the place again at once");
      return;
    }
    void* const first = std::malloc(bytes);
    CHECK(advise(first, CU_MEM_ADVISE_SET_READ_MOSTLY, host, bytes) == CUDA_SUCCESS);
    CHECK(everything(first, bytes)[0] == 1);
    std::free(first);
    void* const second = std::malloc(bytes);
    REQUIRE(second == first);
    CHECK(everything(second, bytes) == nothing);
    std::free(second);
  }
  SECTION("a file is at its place") {
    memory.unmap();
    const Mapped later(PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, place);
    CHECK(everything(place) == nothing);
    say();
    // The same part of the same file is the same memory.
    REQUIRE(::mmap(place, length, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == place);
    CHECK(everything(place) == Values{1, 0, -2, 0, 1, 0, 1, 0});
    const int another = make_file();
    REQUIRE(::mmap(place, length, PROT_READ, MAP_PRIVATE | MAP_FIXED, another, 0) == place);
    CHECK(everything(place) == nothing);
    ::close(another);
  }
  SECTION("only a part of it is gone") {
    const int another = make_file();
    REQUIRE(::mmap(place, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, another, 0) == place);
    CHECK(everything(place, page) == nothing);
    CHECK(everything(place + page, length - page) == Values{1, 0, -2, 0, 1, 0, 1, 0});
    ::close(another);
  }
  SECTION("the memory has moved: nothing was said of the new address") {
    const Mapped room(PROT_NONE);
    CHECK(is_refused(room.data()));
    REQUIRE(::mremap(place, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, room.data()) ==
            room.data());
    CHECK(is_refused(place));
    CHECK(everything(room.data()) == nothing);
  }
  SECTION("a change of rights is no end") {
    REQUIRE(::mprotect(place, length, PROT_READ) == 0);
    CHECK(everything(place) == Values{1, 0, -2, 0, 1, 0, 1, 0});
    REQUIRE(::mprotect(place, length, PROT_NONE) == 0);
    CHECK(is_refused(place));
    REQUIRE(::mprotect(place, length, PROT_READ | PROT_WRITE) == 0);
    CHECK(everything(place) == Values{1, 0, -2, 0, 1, 0, 1, 0});
  }
  ::close(file);
}

TEST_CASE("a forked process has private copies of memory that is prefetched", "[api]") {
  const Mapped memory;
  const Mapped untouched;
  std::memset(memory.data(), 'p', length);
  CHECK(advise(memory.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0)) == CUDA_SUCCESS);
  CHECK(advise(untouched.data(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0)) == CUDA_SUCCESS);
  bring(memory.data(), device(0));

  std::array<int, 2> to_child{};
  std::array<int, 2> to_parent{};
  REQUIRE(::pipe(to_child.data()) == 0);
  REQUIRE(::pipe(to_parent.data()) == 0);
  const pid_t child = ::fork();
  char token = 0;
  if (child == 0) {
    std::memset(memory.data(), 'c', length / 2);
    std::memset(untouched.data(), 'c', length);
    bool right = ::write(to_parent[1], &token, 1) == 1 && ::read(to_child[0], &token, 1) == 1;
    for (std::size_t i = 0; i < length; i += 64) {
      right = right && memory.data()[i] == (i < length / 2 ? 'c' : 'p');
      right = right && untouched.data()[i] == 'c';
    }
    ::_exit(right ? 0 : 1);
  }
  REQUIRE(child > 0);
  REQUIRE(::read(to_parent[0], &token, 1) == 1);
  // The child has written one half of `memory`, so has copies of it, and shares the other half.
  for (const CUmemLocation where : {host, device(0), host}) {
    bring(memory.data(), where);
    bring(untouched.data(), where);
  }
  for (std::size_t i = 0; i < length; i += 64) {
    REQUIRE(memory.data()[i] == 'p');
    REQUIRE(untouched.data()[i] == 0);
  }
  std::memset(memory.data(), 'q', length);
  REQUIRE(::write(to_child[1], &token, 1) == 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  for (const int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(end);

  CHECK(in_forked_process([&] { return memory.data()[0] == 'q' && untouched.data()[0] == 0; }) ==
        0);
}

TEST_CASE("a batch takes managed memory and the program's other memory", "[api]") {
  const Mapped memory;
  const Managed<char> managed(length);
  const CUstream stream = session().stream(0);
  std::array<CUdeviceptr, 3> firsts{address_of(memory.data()), address_of(managed.data()),
                                    address_of(memory.data())};
  std::array<std::size_t, 3> sizes{length / 2, length, length / 2};
  std::array<CUmemLocation, 1> where{device(0)};
  std::array<std::size_t, 1> first_ranges{0};
  CHECK(cuMemPrefetchBatchAsync(firsts.data(), sizes.data(), 2, where.data(), first_ranges.data(),
                                1, 0, stream) == CUDA_SUCCESS);
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(everything(memory.data(), length / 2)[3] == 0);
  CHECK(everything(managed.data())[3] == 0);
  CHECK(present_pages(memory.data()) == pages_long / 2);

  // A range that does not exist ends the batch; the ranges before it are carried out.
  firsts[0] = address_of(memory.data() + length / 2);
  firsts[1] = page;
  CHECK(cuMemPrefetchBatchAsync(firsts.data(), sizes.data(), 3, where.data(), first_ranges.data(),
                                1, 0, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(present_pages(memory.data()) == pages_long);

  std::memset(memory.data(), 'k', length);
  firsts[0] = address_of(memory.data());
  CHECK(cuMemDiscardBatchAsync(firsts.data(), sizes.data(), 1, 0, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemDiscardAndPrefetchBatchAsync(firsts.data(), sizes.data(), 1, where.data(),
                                          first_ranges.data(), 1, 0,
                                          stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(session().wait(0) == CUDA_SUCCESS);
  CHECK(memory.data()[0] == 'k');
}

TEST_CASE("the runtime API works on the program's memory in the same way", "[api]") {
  const Mapped memory;
  const cudaMemLocation to_device{cudaMemLocationTypeDevice, 0};
  const cudaMemLocation isolated{cudaMemLocationTypeDevice, 1};
  CHECK(cudaMemAdvise_v2(memory.data(), length, cudaMemAdviseSetPreferredLocation, to_device) ==
        cudaSuccess);
  CHECK(cudaMemAdvise_v2(memory.data(), length, cudaMemAdviseSetPreferredLocation, isolated) ==
        cudaErrorInvalidDevice);
  CHECK(cudaMemPrefetchAsync_v2(memory.data(), length, to_device, 0, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(present_pages(memory.data()) == pages_long);
  for (const cudaMemRangeAttribute attribute :
       {cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributeLastPrefetchLocation}) {
    int value = -777;
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, attribute, memory.data(), length) ==
          cudaSuccess);
    CHECK(value == 0);
  }
}

TEST_CASE("advice and prefetches of memory that other threads map and unmap", "[api]") {
  session();
  // Places that are mapped and unmapped all the time. Only this test uses these addresses.
  constexpr std::size_t places = 8;
  Mapped room(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, nullptr, places * length);
  std::atomic<bool> stop = false;
  std::thread mapper([&] {
    for (std::size_t i = 0; !stop; i = (i + 3) % places) {
      char* const place = room.data() + i * length;
      const int flags = i % 2 == 0 ? MAP_PRIVATE : MAP_SHARED;
      expect(::mmap(place, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_FIXED, -1,
                    0) == place,
             "mmap");
      place[0] = 'm';
      expect(place[length - 1] == 0, "the memory is not new");
      expect(
          ::mmap(place, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place,
          "mmap");
    }
  });
  for (std::size_t i = 0; i < 2000; ++i) {
    const char* const place = room.data() + i % places * length;
    const CUresult result = i % 3 == 0 ? prefetch(place, device(0))
                            : i % 3 == 1
                                ? advise(place, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device(0))
                                : advise(place, CU_MEM_ADVISE_SET_READ_MOSTLY);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
      REQUIRE(result == CUDA_SUCCESS);
  }
  stop = true;
  mapper.join();
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}
