#include "os/other_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/child.h"
#include "support/session.h"

using namespace wherry::impl;
using wherry::test::Child;
using wherry::test::expect;

namespace {

constexpr pid_t nobody = 0x7fff'fff0;

}  // namespace

TEST_CASE("a process is told apart by when it started, whatever its name is", "[os]") {
  const ProcessIdentity own = own_identity();
  CHECK(own.pid == ::getpid());
  CHECK(own.start_time != 0);
  CHECK(identify_process(own.pid) == own);
  Child child([] {
    ::prctl(PR_SET_NAME, ") Z (1 2) 3");
    expect(::write(STDOUT_FILENO, "named\n", 6) == 6, "cannot say so");
    ::pause();
  });
  REQUIRE(child.read_line() == "named");
  const auto other = identify_process(child.pid());
  REQUIRE(other);
  CHECK(other->start_time >= own.start_time);
  CHECK(identify_process(child.pid()) == other);
  CHECK(!identify_process(nobody));
  CHECK(!identify_process(-1));
}

TEST_CASE("a process that has ended is none, also while its parent has not asked", "[os]") {
  Child child([] {});
  pid_t pid = child.pid();
  for (int i = 0; i < 2000 && identify_process(pid); ++i) ::usleep(10'000);
  CHECK(!identify_process(pid));
}

TEST_CASE("the file of another process is opened if it is that one", "[os]") {
  const Fd file(::memfd_create("opened", MFD_CLOEXEC));
  const Fd other(::memfd_create("other", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), 100) == 0);
  Child child([] {
    expect(::write(STDOUT_FILENO, "there\n", 6) == 6, "cannot say so");
    ::pause();
  });
  REQUIRE(child.read_line() == "there");
  const FileIdentity identity = identify_file(file.get());
  const OpenedFile opened = open_file_of(child.pid(), file.get(), identity, O_RDWR);
  REQUIRE(opened.error == 0);
  CHECK(identify_file(opened.fd.get()) == identity);
  CHECK(::pwrite(opened.fd.get(), "x", 1, 99) == 1);
  CHECK(open_file_of(child.pid(), other.get(), identity, O_RDWR).error == ENOENT);
  CHECK(open_file_of(child.pid(), STDOUT_FILENO, identity, O_RDWR).error == ENOENT);
  CHECK(open_file_of(child.pid(), 1000, identity, O_RDWR).error == ENOENT);
  CHECK(open_file_of(nobody, file.get(), identity, O_RDWR).error == ENOENT);
}
