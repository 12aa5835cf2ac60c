#include "os/process/other_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::other_process_test {

using namespace wherry::impl;
using wherry::test::Child;
using wherry::test::expect;

namespace {

constexpr pid_t no_process = 0x7fff'fff0;

}  // namespace

TEST_CASE("a process is identified by its start time, whatever its name is", "[os]") {
  const ProcessIdentity own = own_identity();
  CHECK(own.pid == ::getpid());
  CHECK(own.start_time != 0);
  CHECK(identify_process(own.pid).identity == own);
  Child child([] {
    ::prctl(PR_SET_NAME, ") Z (1 2) 3");
    expect(::write(STDOUT_FILENO, "named\n", 6) == 6, "cannot write");
    ::pause();
  });
  REQUIRE(child.read_line() == "named");
  const FoundProcess other = identify_process(child.pid());
  REQUIRE(other.error == 0);
  CHECK(other.identity.start_time >= own.start_time);
  CHECK(identify_process(child.pid()).identity == other.identity);
  CHECK(identify_process(no_process).error == ESRCH);
  CHECK(identify_process(-1).error == ESRCH);
}

TEST_CASE("a process that waits in Linux or has work to do is delayed, one that sleeps is not",
          "[os]") {
  Child waiter([] {
    expect(::write(STDOUT_FILENO, "waits\n", 6) == 6, "cannot write");
    if (::vfork() == 0) {
      ::pause();
      ::_exit(0);
    }
  });
  REQUIRE(waiter.read_line() == "waits");
  CHECK(comes_true([&] { return is_delayed_by_linux(waiter.pid()); }));
  Child sleeper([] {
    expect(::write(STDOUT_FILENO, "sleeps\n", 7) == 7, "cannot write");
    ::pause();
  });
  REQUIRE(sleeper.read_line() == "sleeps");
  CHECK(comes_true([&] { return !is_delayed_by_linux(sleeper.pid()); }));
  CHECK(is_delayed_by_linux(::getpid()));
  CHECK_FALSE(is_delayed_by_linux(no_process));
}

TEST_CASE("a process that has ended no longer exists, even before its parent has reaped it",
          "[os]") {
  Child child([] {});
  pid_t pid = child.pid();
  for (int i = 0; i < 2000 && identify_process(pid).error == 0; ++i) ::usleep(10'000);
  CHECK(identify_process(pid).error == ESRCH);
}

TEST_CASE("a process whose first thread has ended runs as long as another thread does", "[os]") {
  Child child([] {
    std::thread([] {
      // Waits until the first thread has ended.
      for (char state = 'R'; state != 'Z'; ::usleep(1000)) {
        std::ifstream stat("/proc/self/stat");
        std::string name;
        stat >> name >> name >> state;
      }
      const ProcessIdentity own = own_identity();
      expect(identify_process(::getpid()).identity == own, "the process does not identify itself");
      expect(::write(STDOUT_FILENO, "alone\n", 6) == 6, "cannot write");
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  });
  REQUIRE(child.read_line() == "alone");
  const FoundProcess found = identify_process(child.pid());
  CHECK(found.error == 0);
}

TEST_CASE("a process that Linux does not let us inspect is not taken to have ended", "[os]") {
  const ProcessIdentity own = own_identity();
  const Fd file(::memfd_create("opened", MFD_CLOEXEC));
  const FileIdentity identity = identify_file(file.get());
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int of_process = identify_process(own.pid).error;
  const int of_file = open_file_of(own.pid, file.get(), identity, O_RDWR).error;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(of_process == EMFILE);
  CHECK(of_file == EMFILE);
}

TEST_CASE("the file of another process is opened only if it is the identified one", "[os]") {
  const Fd file(::memfd_create("opened", MFD_CLOEXEC));
  const Fd other(::memfd_create("other", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), 100) == 0);
  Child child([] {
    expect(::write(STDOUT_FILENO, "there\n", 6) == 6, "cannot write");
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
  CHECK(open_file_of(no_process, file.get(), identity, O_RDWR).error == ENOENT);
}

}  // namespace wherry::test::other_process_test
