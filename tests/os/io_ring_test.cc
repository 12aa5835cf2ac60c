// Operations that Linux does not accept at once. The test replaces liburing's io_uring_submit(), so
// that submissions are refused, or accepted in part.
#include "os/files/io_ring.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "os/process/permissions.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::io_ring_test {

using namespace wherry::impl;
using wherry::test::expect;

namespace {

constexpr unsigned all = ~0u;
unsigned accepted_max = all;  // of one submission

}  // namespace

extern "C" int io_uring_submit(io_uring* ring) {
  using Submit = int(io_uring*);
  static Submit* const real = reinterpret_cast<Submit*>(::dlsym(RTLD_NEXT, "io_uring_submit"));
  const unsigned ready = ::io_uring_sq_ready(ring);
  if (accepted_max == 0) return -EAGAIN;
  if (accepted_max >= ready) return real(ring);
  // A copy of the ring's bookkeeping whose queue ends earlier.
  io_uring shorter = *ring;
  shorter.sq.sqe_tail -= ready - accepted_max;
  return real(&shorter);
}

namespace {

using Link = IoRing::Link;

struct File {
  const int fd = ::memfd_create("io-ring-test", MFD_CLOEXEC);

  explicit File(const std::string& contents = "") {
    expect(fd >= 0 && ::pwrite(fd, contents.data(), contents.size(), 0) ==
                          static_cast<ssize_t>(contents.size()),
           "cannot write a file");
  }
  ~File() { ::close(fd); }
  std::string contents() const {
    char text[100];
    const ssize_t got = ::pread(fd, text, sizeof text, 0);
    return {text, static_cast<std::size_t>(got)};
  }
};

std::span<const std::byte> bytes_of(const char* text) {
  return {reinterpret_cast<const std::byte*>(text), std::strlen(text)};
}

struct Setup {
  std::unique_ptr<IoRing> ring = IoRing::create(4);

  Setup() { accepted_max = all; }
  // Writes, and checks that nothing else completes first.
  void write(const File& file, const char* text, std::uint64_t tag) {
    ring->write(file.fd, 0, bytes_of(text), tag, Link::none);
    REQUIRE(ring->submit());
    const IoRing::Done done = ring->wait();
    CHECK(done.tag == tag);
    CHECK(done.result == static_cast<int>(std::strlen(text)));
  }
};

bool has_rings() {
  if (permissions()[Request::io_uring]) return true;
  WARN("skipped: io_uring is not permitted");
  return false;
}

}  // namespace

TEST_CASE("operations that Linux refuses happen when they are submitted again", "[os]") {
  if (!has_rings()) return;
  Setup s;
  const File file;
  s.ring->write(file.fd, 0, bytes_of("one"), 1, Link::none);
  accepted_max = 0;
  CHECK_FALSE(s.ring->submit());
  CHECK_FALSE(s.ring->submit());
  CHECK(file.contents().empty());
  accepted_max = all;
  REQUIRE(s.ring->submit());
  CHECK(s.ring->wait().tag == 1);
  CHECK(file.contents() == "one");
}

TEST_CASE("discarded operations do not happen and are not reported", "[os]") {
  if (!has_rings()) return;
  Setup s;
  const File file;
  const File other("kept");
  // More often than the ring has entries.
  for (std::uint64_t round = 0; round < 20; ++round) {
    accepted_max = 0;
    const unsigned operations = 1 + round % 4;
    for (unsigned i = 0; i + 1 < operations; ++i)
      s.ring->write(other.fd, 0, bytes_of("lost"), 100 + i, Link::next);
    s.ring->punch(other.fd, 0, 4096, 104);
    CHECK_FALSE(s.ring->submit());
    s.ring->discard();
    if (round % 3 == 0) continue;  // discards once more before the next submission
    accepted_max = all;
    s.write(file, "text", round);
    CHECK(other.contents() == "kept");
  }
}

TEST_CASE("if Linux accepts part of a chain the rest is cancelled", "[os]") {
  if (!has_rings()) return;
  Setup s;
  for (int round = 0; round < 10; ++round) {
    const File from("text");
    const File to;
    s.ring->write(to.fd, 0, bytes_of("copy"), 7, Link::next);
    s.ring->punch(from.fd, 0, 4096, 8);
    accepted_max = 1;
    REQUIRE(s.ring->submit());
    accepted_max = all;
    int results[2] = {};
    for (int i = 0; i < 2; ++i) {
      const IoRing::Done done = s.ring->wait();
      REQUIRE((done.tag == 7 || done.tag == 8));
      results[done.tag - 7] = done.result;
    }
    CHECK(results[0] == 4);
    CHECK(results[1] == -ECANCELED);
    CHECK(to.contents() == "copy");
    CHECK(from.contents() == "text");
    if (round % 2 == 0) s.write(to, "next", 9);
  }
}

TEST_CASE("a ring does not use the number of a closed standard stream", "[os]") {
  if (!has_rings()) return;
  const auto outcome = wherry::test::in_fresh_process([] {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    const auto ring = IoRing::create(4);
    expect(ring != nullptr, "there is no ring");
    expect(::fcntl(STDIN_FILENO, F_GETFD) < 0 && ::fcntl(STDOUT_FILENO, F_GETFD) < 0,
           "a standard stream's number is used");
    const File file;  // takes the lowest
    ring->write(file.fd, 0, bytes_of("text"), 1, Link::none);
    expect(ring->submit() && ring->wait().result == 4 && file.contents() == "text",
           "the write failed");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::io_ring_test
