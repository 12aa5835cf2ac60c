// Each case runs with what this Linux offers, and as on a Linux without the advice to create pages
// (before 5.14).
#include "os/memory/touch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/page.h"
#include "os/files/fd.h"
#include "os/kernel_abi.h"
#include "os/memory/presence.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::impl::touch_test {
namespace {

using test::expect;

constexpr std::size_t pages = 8;

void on_both_kinds_of_linux(const std::function<void(bool has_advice)>& body) {
  for (const bool has_advice : {true, false}) {
    const test::Outcome outcome = test::in_fresh_process([&] {
      if (!has_advice) test::forbid_advice(impl::abi::populate_read, impl::abi::populate_write);
      body(has_advice && ::madvise(nullptr, 0, impl::abi::populate_read) == 0);
    });
    INFO((has_advice ? "as is: " : "without the advice: ") << outcome.describe());
    CHECK(outcome.passed());
  }
}

std::uintptr_t map(int protection, int flags, int fd = -1) {
  void* const address = ::mmap(nullptr, pages * page_size, protection, flags, fd, 0);
  expect(address != MAP_FAILED, "no memory");
  return reinterpret_cast<std::uintptr_t>(address);
}

std::uintptr_t map_private(int protection) {
  return map(protection, MAP_PRIVATE | MAP_ANONYMOUS);
}

int touch_all(std::uintptr_t start, Touch touch) {
  return touch_pages(start, pages * page_size, touch);
}

bool all_present(std::uintptr_t start) {
  return absent_pages({start, start + pages * page_size}).empty();
}

}  // namespace

TEST_CASE("touched pages exist, and keep their contents") {
  on_both_kinds_of_linux([](bool) {
    const std::uintptr_t memory = map_private(PROT_READ | PROT_WRITE);
    // The extremes of the values by which Linux could decide to wake a thread.
    const std::uint32_t values[pages] = {0,          1,          0x7fffffff, 0x80000000,
                                         0xffffffff, 0xfffff7ff, 7,          0};
    for (std::size_t i = 1; i + 1 < pages; ++i)
      *reinterpret_cast<std::uint32_t*>(memory + i * page_size) = values[i];
    expect(!all_present(memory), "pages exist before they are touched");
    for (const Touch touch : {Touch::to_read, Touch::to_write})
      expect(touch_all(memory, touch) == 0, "the pages could not be touched");
    expect(all_present(memory), "touched pages do not exist");
    for (std::size_t i = 0; i < pages; ++i)
      expect(*reinterpret_cast<std::uint32_t*>(memory + i * page_size) == values[i], "changed");
  });
}

TEST_CASE("a touch to write creates the pages of a file") {
  on_both_kinds_of_linux([](bool) {
    const Fd file(::memfd_create("touched", MFD_CLOEXEC));
    expect(file && ::ftruncate(file.get(), pages * page_size) == 0, "no file");
    const std::uintptr_t memory = map(PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
    expect(touch_all(memory, Touch::to_write) == 0, "the pages could not be touched");
    expect(::lseek(file.get(), 0, SEEK_HOLE) == pages * page_size, "the file has holes");
  });
}

TEST_CASE("what an access would get as a signal is an error of the touch") {
  on_both_kinds_of_linux([](bool has_advice) {
    const auto expect_error = [&](int error, int with_advice, const char* what) {
      expect(error == (has_advice ? with_advice : EFAULT), what);
    };
    const std::uintptr_t closed = map_private(PROT_NONE);
    expect_error(touch_all(closed, Touch::to_read), EINVAL, "inaccessible memory was read");
    const std::uintptr_t read_only = map_private(PROT_READ);
    expect_error(touch_all(read_only, Touch::to_write), EINVAL, "read-only memory was written");
    expect(touch_all(read_only, Touch::to_read) == 0, "read-only memory was not read");
    ::munmap(reinterpret_cast<void*>(read_only), pages * page_size);
    for (const Touch touch : {Touch::to_read, Touch::to_write})
      expect_error(touch_all(read_only, touch), ENOMEM, "memory that is not mapped was accessed");

    const Fd file(::memfd_create("short", MFD_CLOEXEC));
    expect(file && ::ftruncate(file.get(), page_size) == 0, "no file");
    const std::uintptr_t memory = map(PROT_READ | PROT_WRITE, MAP_SHARED, file.get());
    for (const Touch touch : {Touch::to_read, Touch::to_write})
      expect(touch_all(memory, touch) == EFAULT, "pages beyond the end of the file were accessed");
    expect(touch_pages(memory, page_size, Touch::to_write) == 0, "the file's page was not touched");
  });
}

TEST_CASE("a touch to write loses no write of another thread") {
  on_both_kinds_of_linux([](bool) {
    const std::uintptr_t memory = map_private(PROT_READ | PROT_WRITE);
    auto& counter = *reinterpret_cast<std::atomic<std::uint32_t>*>(memory);
    constexpr std::uint32_t increments = 200'000;
    std::thread writer([&] {
      for (std::uint32_t i = 0; i < increments; ++i) counter.fetch_add(1);
    });
    while (counter.load() < increments)
      if (touch_pages(memory, page_size, Touch::to_write) != 0) break;
    writer.join();
    expect(counter.load() == increments, "a write was lost");
  });
}

}  // namespace wherry::impl::touch_test
