// wherryTouchPages, checked against Linux's view: where pages are afterwards, and how system calls
// treat them. Everything runs twice: with what this machine allows, and with userfaultfd for user
// mode only, where a system call fails if it gets a page that is elsewhere.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/seccomp_filter.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::touch_test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t bytes = 75 * page_bytes - 100;
constexpr std::uint32_t host_bit = 1;
constexpr std::uint32_t device_bit = 2;

// Runs body(true if faults inside system calls are answered) in both modes. `is_served`: the answer
// without restriction.
template <typename Body>
void in_both_ways(const Body& body, bool (*is_served)() = serves_system_calls) {
  for (const bool restricted : {false, true}) {
    const bool served = !restricted && is_served();
    const Outcome outcome = in_fresh_process([&] {
      if (restricted) leave_user_mode_only_userfaultfd();
      body(served);
    });
    INFO((restricted ? "for user mode only: " : "as allowed: ") << outcome.describe());
    CHECK(outcome.passed());
  }
}

void touch(const void* start, std::size_t count, unsigned flags) {
  WHERRY_TRY(wherryTouchPages(start, count, flags));
}

void fill_on_device(const Session& session, const Managed<char>& memory, char value) {
  session.run(0, [start = memory.data(), count = memory.size(), value] {
    std::memset(start, value, count);
  });
}

// Counts the pages for which `answer` returns the mask.
template <typename Answer>
std::size_t count_pages(const Managed<char>& memory, std::uint32_t mask, const Answer& answer) {
  std::size_t pages = 0;
  for (std::size_t at = 0; at < memory.size(); at += page_bytes)
    pages += answer(memory.data() + at) == mask;
  return pages;
}
constexpr std::size_t pages = (bytes + page_bytes - 1) / page_bytes;

TEST_CASE("touched pages are here, and writable if they were touched for writing", "[system]") {
  in_both_ways([](bool) {
    const Session session("capacity=16M");
    const Witness witness;
    const auto mapped = [&](const void* page) { return witness.mappers(page); };
    const auto writable = [&](const void* page) { return witness.writers(page); };
    const Managed<char> memory{bytes};
    for (const unsigned flags : {WHERRY_TOUCH_READ, WHERRY_TOUCH_WRITE}) {
      fill_on_device(session, memory, 5);
      expect(count_pages(memory, device_bit, mapped) == pages, "the pages are not at the device");
      touch(memory.data(), bytes, flags);
      expect(count_pages(memory, host_bit, mapped) == pages, "the host does not map the pages");
      expect(flags == WHERRY_TOUCH_READ || count_pages(memory, host_bit, writable) == pages,
             "the host may not write");
      expect(std::count(memory.data(), memory.data() + bytes, 5) == bytes, "a byte has changed");
    }
  });
}

TEST_CASE("a touch of one byte touches its page, and creates pages that do not exist", "[system]") {
  in_both_ways([](bool) {
    const Session session("capacity=16M");
    const Witness witness;
    const Managed<char> memory{bytes};
    touch(memory.data() + 40 * page_bytes - 1, 2, WHERRY_TOUCH_WRITE);
    expect(witness.writers(memory.data() + 39 * page_bytes) == host_bit,
           "the first page is not writable");
    expect(witness.writers(memory.data() + 40 * page_bytes) == host_bit,
           "the second page is not writable");
    expect(witness.residents(memory.data()) == 0, "a page outside the range was touched");
  });
}

TEST_CASE(
    "a touch of duplicated pages for reading makes another copy, one for writing collapses them",
    "[system]") {
  in_both_ways([](bool) {
    const Session session("capacity=16M");
    const Witness witness;
    const Managed<char> memory{bytes};
    WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory.data()), bytes,
                           CU_MEM_ADVISE_SET_READ_MOSTLY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    fill_on_device(session, memory, 5);
    const auto residents = [&](const void* page) { return witness.residents(page); };
    touch(memory.data(), bytes, WHERRY_TOUCH_READ);
    expect(count_pages(memory, host_bit | device_bit, residents) == pages,
           "a page does not have two copies");
    touch(memory.data(), bytes, WHERRY_TOUCH_WRITE);
    expect(count_pages(memory, host_bit, residents) == pages, "another processor still has a copy");
  });
}

TEST_CASE("touching for writing loses no concurrent write to the same bytes", "[system]") {
  in_both_ways([](bool) {
    const Session session("capacity=16M,workers=2");
    using Counter = std::atomic<std::uint64_t>;
    const Managed<Counter> counters(2 * page_bytes / sizeof(Counter));
    constexpr std::size_t stride = page_bytes / sizeof(Counter);
    const std::uint64_t rounds = scaled(200'000);
    session.launch(0, 2, [start = counters.data(), rounds](std::size_t worker) {
      for (std::uint64_t i = 0; i < rounds; ++i) ++start[worker * stride];
    });
    while (cuStreamQuery(session.stream(0)) == CUDA_ERROR_NOT_READY)
      touch(counters.data(), counters.bytes(), WHERRY_TOUCH_WRITE);
    WHERRY_TRY(session.wait(0));
    expect(counters[0] == rounds && counters[stride] == rounds, "increments were lost");
  });
}

// Repeats the touch and the call until the call finds the memory, at most 1000 times.
template <typename Call>
ssize_t call_touched(const void* start, std::size_t count, unsigned flags, const Call& call) {
  for (int attempt = 0;; ++attempt) {
    touch(start, count, flags);
    const ssize_t result = call();
    if (result >= 0 || errno != EFAULT || attempt == 1000) return result;
  }
}

TEST_CASE("read() and write() find touched memory, and fail with EFAULT for memory on a device",
          "[system]") {
  in_both_ways([](bool served) {
    const Session session("capacity=16M");
    const Managed<char> memory{bytes};
    const int file = ::memfd_create("file", MFD_CLOEXEC);
    std::vector<char> content(bytes, 7);
    expect(::pwrite(file, content.data(), bytes, 0) == bytes, "the file's content");

    const auto whole_or_fault = [&](ssize_t result, const char* what) {
      expect(served ? result == bytes : result == -1 && errno == EFAULT, what);
    };
    fill_on_device(session, memory, 1);
    whole_or_fault(::pread(file, memory.data(), bytes, 0), "a read without a touch");
    fill_on_device(session, memory, 1);
    const ssize_t got = call_touched(memory.data(), bytes, WHERRY_TOUCH_WRITE,
                                     [&] { return ::pread(file, memory.data(), bytes, 0); });
    expect(got == bytes && memory[0] == 7 && memory[bytes - 1] == 7, "read");

    fill_on_device(session, memory, 2);
    whole_or_fault(::pwrite(file, memory.data(), bytes, 0), "a write without a touch");
    fill_on_device(session, memory, 3);
    const ssize_t put = call_touched(memory.data(), bytes, WHERRY_TOUCH_READ,
                                     [&] { return ::pwrite(file, memory.data(), bytes, 0); });
    expect(put == bytes && ::pread(file, content.data(), bytes, 0) == bytes, "write");
    expect(std::count(content.begin(), content.end(), 3) == bytes, "the file has other contents");
  });
}

TEST_CASE("a call stops before the first page that is not here", "[system]") {
  in_both_ways([](bool served) {
    const Session session("capacity=16M");
    constexpr std::size_t part = 32 * page_bytes;  // a whole number of regions
    const Managed<char> memory{bytes};
    fill_on_device(session, memory, 4);
    const int file = ::memfd_create("file", MFD_CLOEXEC);
    touch(memory.data(), part, WHERRY_TOUCH_READ);
    const ssize_t put = ::write(file, memory.data(), bytes);
    expect(put == static_cast<ssize_t>(served ? bytes : part), "wrote " + std::to_string(put));
  });
}

TEST_CASE("a kernel that makes system calls can call wherryTouchPages, too", "[system]") {
  const auto body = [](bool served) {
    const Session session("capacity=16M");
    const Managed<char> memory{bytes}, back{bytes};
    struct Answers {
      ssize_t untouched, written, read;
      int error;
    };
    const Managed<Answers> answers(1);
    std::memset(memory.data(), 6, bytes);
    session.run(0, [from = memory.data(), to = back.data(), answers = answers.data()] {
      const int file = ::memfd_create("in a device", MFD_CLOEXEC);
      const ssize_t untouched = ::pwrite(file, from, bytes, 0);
      const int error = errno;
      const ssize_t written = call_touched(from, bytes, WHERRY_TOUCH_READ,
                                           [&] { return ::pwrite(file, from, bytes, 0); });
      const ssize_t read =
          call_touched(to, bytes, WHERRY_TOUCH_WRITE, [&] { return ::pread(file, to, bytes, 0); });
      ::close(file);
      *answers = {untouched, written, read, error};
    });
    const Answers& got = answers[0];
    expect(served ? got.untouched == bytes : got.untouched == -1 && got.error == EFAULT,
           "a call without a touch");
    expect(got.written == bytes && got.read == bytes, "a call after a touch failed");
    expect(std::count(back.data(), back.data() + bytes, 6) == bytes, "the file has other contents");
  };
  in_both_ways(body, devices_serve_system_calls);
}

TEST_CASE("pinned memory stays where it is when it is touched", "[system]") {
  in_both_ways([](bool) {
    const Session session("capacity=16M");
    const Managed<char> memory{bytes};
    WHERRY_TRY(wherryPinPages(reinterpret_cast<CUdeviceptr>(memory.data()), bytes));
    touch(memory.data(), bytes, WHERRY_TOUCH_WRITE);
    fill_on_device(session, memory, 8);
    const int file = ::memfd_create("file", MFD_CLOEXEC);
    expect(::write(file, memory.data(), bytes) == bytes, "write");
    expect(::pread(file, memory.data(), bytes, 0) == bytes, "read");
  });
}

}  // namespace
}  // namespace wherry::test::touch_test
