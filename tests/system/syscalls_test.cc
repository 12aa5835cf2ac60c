// System calls read and write managed memory wherever its pages are: Linux takes faults inside the
// calls. Where the library cannot answer such faults, the test calls wherryTouchPages before each
// call, as programs have to do there.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::syscalls_test {
namespace {

constexpr std::size_t bytes = 300'000;  // several regions, and not a multiple of a page
constexpr std::uint32_t host_bit = 1;
constexpr std::uint32_t device_bit = 2;

const Session& session() {
  static const Session instance{"capacity=16M"};
  return instance;
}

// A file with known contents.
class File {
 public:
  File() : fd_(::memfd_create("content", MFD_CLOEXEC)) {
    for (std::size_t i = 0; i < bytes; ++i) content_.push_back(static_cast<char>(i * 7 % 253));
    REQUIRE(::pwrite(fd_, content_.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  const std::vector<char>& content() const { return content_; }

 private:
  int fd_;
  std::vector<char> content_;
};

// Prepares the memory for a system call that reads or writes it.
void prepare(const char* start, std::size_t count, unsigned flags) {
  static const bool served = serves_system_calls();
  if (!served) WHERRY_TRY(wherryTouchPages(start, count, flags));
}
void prepare_to_take(const char* start, std::size_t count) {
  prepare(start, count, WHERRY_TOUCH_READ);
}
void prepare_to_fill(const char* start, std::size_t count) {
  prepare(start, count, WHERRY_TOUCH_WRITE);
}

void fill_on_device(const Managed<char>& memory, char value) {
  session().run(0, [start = memory.data(), count = memory.size(), value] {
    std::memset(start, value, count);
  });
  REQUIRE(Witness{}.residents(memory.data()) == device_bit);
}

TEST_CASE("read() fills a buffer that lies on a device", "[system]") {
  session();
  const File file;
  const Managed<char> memory{bytes};
  fill_on_device(memory, 1);
  REQUIRE(::read(file.fd(), memory.data(), 0) == 0);
  REQUIRE(::lseek(file.fd(), 0, SEEK_SET) == 0);
  prepare_to_fill(memory.data(), bytes);
  REQUIRE(::read(file.fd(), memory.data(), bytes) == static_cast<ssize_t>(bytes));
  CHECK(Witness{}.residents(memory.data()) == host_bit);
  CHECK(std::memcmp(memory.data(), file.content().data(), bytes) == 0);
}

TEST_CASE("read() fills a buffer that no processor has accessed", "[system]") {
  session();
  const File file;
  const Managed<char> memory{bytes};
  prepare_to_fill(memory.data(), bytes);
  REQUIRE(::pread(file.fd(), memory.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  CHECK(std::memcmp(memory.data(), file.content().data(), bytes) == 0);
}

TEST_CASE("pread() fills part of a buffer and does not change the rest", "[system]") {
  session();
  const File file;
  const Managed<char> memory{bytes};
  fill_on_device(memory, 5);
  constexpr std::size_t first = 65'000, count = 70'001;
  prepare_to_fill(memory.data() + first, count);
  REQUIRE(::pread(file.fd(), memory.data() + first, count, 1234) == static_cast<ssize_t>(count));
  CHECK(std::memcmp(memory.data() + first, file.content().data() + 1234, count) == 0);
  CHECK(memory[first - 1] == 5);
  CHECK(memory[first + count] == 5);
}

TEST_CASE("write() reads from device memory", "[system]") {
  session();
  const Managed<char> memory{bytes};
  fill_on_device(memory, 9);
  const int target = ::memfd_create("target", MFD_CLOEXEC);
  prepare_to_take(memory.data(), bytes);
  REQUIRE(::write(target, memory.data(), bytes) == static_cast<ssize_t>(bytes));
  std::vector<char> written(bytes);
  REQUIRE(::pread(target, written.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  CHECK(written == std::vector<char>(bytes, 9));
  ::close(target);
}

TEST_CASE("readv() and writev() read and write pieces at different processors", "[system]") {
  session();
  const File file;
  const Managed<char> on_device{bytes}, on_host{bytes}, nowhere{bytes};
  fill_on_device(on_device, 1);
  std::memset(on_host.data(), 2, bytes);
  constexpr std::size_t part = 90'000;
  iovec pieces[] = {
      {on_device.data() + 10, part}, {on_host.data() + 20, part}, {nowhere.data() + 30, part}};
  for (const iovec& piece : pieces)
    prepare_to_fill(static_cast<char*>(piece.iov_base), piece.iov_len);
  REQUIRE(::preadv(file.fd(), pieces, 3, 0) == static_cast<ssize_t>(3 * part));
  const char* const content = file.content().data();
  CHECK(std::memcmp(on_device.data() + 10, content, part) == 0);
  CHECK(std::memcmp(on_host.data() + 20, content + part, part) == 0);
  CHECK(std::memcmp(nowhere.data() + 30, content + 2 * part, part) == 0);

  fill_on_device(on_device, 4);
  const int target = ::memfd_create("target", MFD_CLOEXEC);
  for (const iovec& piece : pieces)
    prepare_to_take(static_cast<char*>(piece.iov_base), piece.iov_len);
  REQUIRE(::writev(target, pieces, 3) == static_cast<ssize_t>(3 * part));
  std::vector<char> written(3 * part);
  REQUIRE(::pread(target, written.data(), written.size(), 0) ==
          static_cast<ssize_t>(written.size()));
  CHECK(std::all_of(written.begin(), written.begin() + part, [](char byte) { return byte == 4; }));
  CHECK(std::memcmp(written.data() + part, content + part, 2 * part) == 0);
  ::close(target);
}

TEST_CASE("a pipe between host and device memory carries every byte", "[system]") {
  session();
  const Managed<char> from{60'000}, to{60'000};
  fill_on_device(from, 3);
  fill_on_device(to, 0);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  prepare_to_take(from.data(), from.size());
  REQUIRE(::write(ends[1], from.data(), from.size()) == static_cast<ssize_t>(from.size()));
  prepare_to_fill(to.data(), to.size());
  REQUIRE(::read(ends[0], to.data(), to.size()) == static_cast<ssize_t>(to.size()));
  CHECK(std::all_of(to.data(), to.data() + to.size(), [](char byte) { return byte == 3; }));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace wherry::test::syscalls_test
