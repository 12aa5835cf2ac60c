#include "os/files/fd.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/session.h"

namespace wherry::test::fd_test {

using namespace wherry::impl;
using wherry::test::expect;
using wherry::test::open_descriptors;

namespace {

Fd open_one() {
  return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Forks like the library's fork handlers. Returns the status of a child that runs `body`.
template <typename Body>
int fork_and_wait(const Body& body) {
  begin_fork_of_descriptors();
  const pid_t child = ::fork();
  if (child == 0) {
    close_own_descriptors();
    ::_exit(body());
  }
  end_fork_of_descriptors();
  int status = -1;
  expect(child > 0 && ::waitpid(child, &status, 0) == child, "fork");
  return status;
}

}  // namespace

TEST_CASE("a descriptor never gets the number of a standard stream that the program has closed",
          "[os]") {
  const auto outcome = wherry::test::in_fresh_process([] {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) ::close(standard);
    const Fd one = open_one();
    const Fd other = duplicate_fd(one.get());
    expect(one.get() > STDERR_FILENO && other.get() > STDERR_FILENO, "a low number");
    expect(::fcntl(one.get(), F_GETFD) == FD_CLOEXEC, "the descriptor is not close-on-exec");
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO})
      expect(::fcntl(standard, F_GETFD) < 0, "the number of a standard stream is in use");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a child has none of the descriptors, and closes no descriptor of its own", "[os]") {
  const auto outcome = wherry::test::in_fresh_process([] {
    const std::set<int> before = open_descriptors();
    Fd kept = open_one();
    Fd given = open_one();
    const int released = given.release();
    std::set<int> left = before;
    left.insert(released);
    const int status = fork_and_wait([&] {
      if (open_descriptors() != left) return 1;
      const int own = ::open("/dev/null", O_RDONLY);
      if (own != kept.get()) return 2;
      kept.reset();
      return ::fcntl(own, F_GETFD) >= 0 ? 0 : 3;
    });
    expect(status == 0, "the child returned " + std::to_string(status));
    expect(::fcntl(kept.get(), F_GETFD) >= 0, "the parent's descriptor is closed, too");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a handler that interrupts the closing of a descriptor may fork", "[os]") {
  constexpr int limit_ms = 20'000;
  const auto outcome = wherry::test::in_fresh_process(
      [] {
        static std::atomic<int> forks = 0;
        struct sigaction action {};
        action.sa_handler = [](int) {
          begin_fork_of_descriptors();
          end_fork_of_descriptors();
          ++forks;
        };
        expect(::sigaction(SIGALRM, &action, nullptr) == 0, "sigaction");
        const itimerval often{{0, 20}, {0, 20}};
        expect(::setitimer(ITIMER_REAL, &often, nullptr) == 0, "setitimer");
        while (forks < 2000) open_one().reset();
        ::_exit(0);
      },
      limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a child has no descriptor that other threads close during the fork", "[os]") {
  const auto outcome = wherry::test::in_fresh_process([] {
    const std::set<int> before = open_descriptors();
    // Opens all descriptors first: a descriptor that another thread has opened, and not yet given
    // to an Fd, would stay open in the child.
    std::vector<Fd> many;
    for (int i = 0; i < 200; ++i) many.push_back(open_one());
    std::atomic<bool> begun = false;
    std::thread closer([&] {
      begun = true;
      for (Fd& fd : many) {
        fd.reset();
        ::usleep(20);
      }
    });
    while (!begun) std::this_thread::yield();
    for (int round = 0; round < 20; ++round)
      expect(fork_and_wait([&] { return open_descriptors() == before ? 0 : 1; }) == 0,
             "a descriptor is open in child " + std::to_string(round));
    closer.join();
    expect(open_descriptors() == before, "a descriptor is open in the parent");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::fd_test
