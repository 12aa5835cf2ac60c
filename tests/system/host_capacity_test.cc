// Failures that end a process: the host accesses memory that it may not, or an access finds no free
// pages in any pool. Each test runs in a process of its own, with a host capacity of a few MiB.
#include <csignal>
#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::host_capacity_test {

namespace {

constexpr std::size_t page_words = 4096 / sizeof(std::uint64_t);

void choose_host(const char* capacity) {
  ::setenv("WHERRY_HOST_CAPACITY", capacity, 1);
}

bool died_of_access(const Outcome& outcome) {
  return outcome.signal == SIGBUS || outcome.signal == SIGSEGV;
}

void write_pages(std::uint64_t* words, std::size_t count, std::uint64_t value) {
  for (std::size_t i = 0; i < count; i += page_words) words[i] = value + i;
}
std::size_t count_wrong(const std::uint64_t* words, std::size_t count, std::uint64_t value) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; i += page_words) wrong += words[i] != value + i;
  return wrong;
}

}  // namespace

TEST_CASE("a host access to device memory raises a signal, and a line says why", "[system]") {
  for (const bool writes : {false, true}) {
    const Outcome outcome = in_fresh_process([&] {
      const Session session("capacity=16M");
      CUdeviceptr own = 0;
      WHERRY_TRY(cuMemAlloc(&own, mebibyte));
      auto* const word = reinterpret_cast<volatile std::uint64_t*>(own);
      if (writes) {
        *word = 1;
      } else {
        (void)*word;
      }
    });
    INFO(outcome.describe());
    CHECK(died_of_access(outcome));
    CHECK(outcome.err.find("another device's memory") != std::string::npos);
  }
}

TEST_CASE("managed memory that all pools together cannot hold is refused", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    choose_host("8M");
    const Session session("capacity=4M;capacity=4M");
    CUdeviceptr first = 0;
    CUdeviceptr second = 1;
    WHERRY_TRY(cuMemAllocManaged(&first, 12 * mebibyte, CU_MEM_ATTACH_GLOBAL));
    const auto allocate = [&](std::size_t bytes) {
      return cuMemAllocManaged(&second, bytes, CU_MEM_ATTACH_GLOBAL);
    };
    expect(allocate(4 * mebibyte + 1) == CUDA_ERROR_OUT_OF_MEMORY,
           "one byte too many is not refused");
    expect(second == 0, "a refused allocation returned an address");
    expect(allocate(~std::size_t{0}) == CUDA_ERROR_OUT_OF_MEMORY, "a huge size is not refused");
    WHERRY_TRY(allocate(4 * mebibyte));
    CUdeviceptr third = 0;
    expect(cuMemAllocManaged(&third, 1, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY,
           "another page is not refused");
    WHERRY_TRY(cuMemFree(second));
    WHERRY_TRY(cuMemAllocManaged(&third, mebibyte, CU_MEM_ATTACH_GLOBAL));
    WHERRY_TRY(cuMemFree(third));
    // Pages of device memory are not available to managed memory.
    WHERRY_TRY(cuMemAlloc(&third, 2 * mebibyte));
    expect(allocate(3 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY, "device memory takes no space");
    WHERRY_TRY(allocate(2 * mebibyte));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("memory that the host can never hold cannot be prefetched to it", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    choose_host("4M");
    const Session session("capacity=8M");
    CUdeviceptr memory = 0;
    WHERRY_TRY(cuMemAllocManaged(&memory, 10 * mebibyte, CU_MEM_ATTACH_GLOBAL));
    CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
    const auto prefetch = [&](std::size_t bytes) {
      return cuMemPrefetchAsync(memory, bytes, host, 0, session.stream(0));
    };
    expect(prefetch(4 * mebibyte + 1) == CUDA_ERROR_OUT_OF_MEMORY,
           "one page too many is not refused");
    int last = 0;
    WHERRY_TRY(cuMemRangeGetAttribute(&last, sizeof last,
                                      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 1));
    expect(last == CU_DEVICE_INVALID, "a refused prefetch was recorded");
    WHERRY_TRY(prefetch(4 * mebibyte));
    CUdeviceptr ranges[]{memory, memory + 3 * mebibyte};
    std::size_t sizes[]{3 * mebibyte, 3 * mebibyte};
    std::size_t from = 0;
    expect(cuMemPrefetchBatchAsync(ranges, sizes, 2, &host, &from, 1, 0, session.stream(0)) ==
               CUDA_ERROR_OUT_OF_MEMORY,
           "a batch does not add up its ranges");
    WHERRY_TRY(session.wait(0));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a full host's pages stay in pools with space, and are mapped there", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    choose_host("4M");
    const Session session("capacity=8M,workers=1");
    const Witness witness;
    const Managed<std::uint64_t> memory(12 * mebibyte / sizeof(std::uint64_t));
    for (std::uint64_t pass = 0; pass < 3; ++pass) {
      write_pages(memory.data(), memory.size(), pass);
      session.run(0, [words = memory.data(), count = memory.size()] {
        for (std::size_t i = 0; i < count; i += page_words) words[i] += 1;
      });
      expect(count_wrong(memory.data(), memory.size(), pass + 1) == 0, "a page has a wrong value");
      expect(witness.pool_bytes(0) <= 4 * mebibyte, "the host's pool exceeds its capacity");
      expect(witness.pool_bytes(1) <= 8 * mebibyte, "the device's does");
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("an access for which no pool has space ends in a signal, and a line that says what to do",
          "[system]") {
  for (const bool on_device : {false, true}) {
    const Outcome outcome = in_fresh_process([&] {
      choose_host("4M");
      const Session session("capacity=4M,workers=1");
      const Managed<std::uint64_t> memory(8 * mebibyte / sizeof(std::uint64_t));
      // Device memory takes pages that had been promised to managed memory.
      CUdeviceptr own = 0;
      WHERRY_TRY(cuMemAlloc(&own, 4 * mebibyte));
      write_pages(memory.data(), 4 * mebibyte / sizeof(std::uint64_t), 1);
      std::uint64_t* const last = &memory[memory.size() - 1];
      if (on_device) {
        session.launch(0, 1, [last](std::size_t) { *last = 1; });
        expect(session.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel has not failed");
        expect(count_wrong(memory.data(), 4 * mebibyte / sizeof(std::uint64_t), 1) == 0,
               "a page is lost");
      } else {
        *last = 1;
      }
    });
    INFO(outcome.describe());
    CHECK((on_device ? outcome.passed() : died_of_access(outcome)));
    CHECK(outcome.err.find("all pools are full") != std::string::npos);
    CHECK(outcome.err.find("WHERRY_HOST_CAPACITY") != std::string::npos);
  }
}

TEST_CASE("device memory is refused when the pages that would have to leave find no space",
          "[system]") {
  const Outcome outcome = in_fresh_process([] {
    choose_host("4M");
    const Session session("capacity=4M,workers=1");
    const Managed<std::uint64_t> memory(8 * mebibyte / sizeof(std::uint64_t));
    write_pages(memory.data(), memory.size(), 7);
    CUdeviceptr own = 1;
    expect(cuMemAlloc(&own, 2 * mebibyte) == CUDA_ERROR_OUT_OF_MEMORY,
           "the allocation is not refused");
    expect(own == 0, "a refused allocation returned an address");
    expect(count_wrong(memory.data(), memory.size(), 7) == 0, "a page is lost");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("an invalid host capacity keeps the library from starting, with one line", "[system]") {
  for (const auto& [text, why] : {std::pair{"8x", "capacity must be bytes"},
                                  {"1M", "less than 2M"},
                                  {"4097K", "not a multiple of 4096 bytes"},
                                  {"9000T", "more than the"}}) {
    const Outcome outcome = in_fresh_process([text = text] {
      choose_host(text);
      expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit fails");
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
    CHECK(outcome.err.find("WHERRY_HOST_CAPACITY") != std::string::npos);
    CHECK(outcome.err.find(why) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

}  // namespace wherry::test::host_capacity_test
