#include "os/process/permissions.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "os/kernel_abi.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/nobody.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::impl::permissions_test {
namespace {

using test::expect;
using test::FilterAction;
using test::open_descriptors;
using Verdict = Answer::Verdict;

constexpr Request all_requests[] = {Request::userfaultfd, Request::userfaultfd_device,
                                    Request::userfaultfd_user_mode, Request::io_uring};

bool same(const Answer& a, const Answer& b) {
  return a.verdict == b.verdict && a.error == b.error;
}

void expect_answer(const Permissions& found, Request request, Verdict verdict, int error = 0) {
  const Answer expected{verdict, error};
  if (!same(found[request], expected))
    expect(false, "request " + std::to_string(static_cast<int>(request)) + " " +
                      to_string(found[request]) + ", expected: it " + to_string(expected));
}

// The result if this process tries the request directly: 0 or an errno.
int ask_directly(Request request) {
  int fd = -1;
  switch (request) {
    case Request::userfaultfd:
      fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
      break;
    case Request::userfaultfd_user_mode:
      fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
      break;
    case Request::userfaultfd_device: {
      const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
      if (!device) return errno;
      fd = ::ioctl(device.get(), abi::new_userfaultfd, O_CLOEXEC);
      break;
    }
    case Request::io_uring: {
      io_uring_params params{};
      fd = static_cast<int>(::syscall(SYS_io_uring_setup, 2, &params));
      break;
    }
  }
  return Fd(fd) ? 0 : errno;
}

volatile sig_atomic_t signals_caught = 0;

sigset_t blocked_signals() {
  sigset_t mask;
  ::sigprocmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

// A new empty folder, where core dumps would be written.
class DumpFolder {
 public:
  DumpFolder() {
    char name[] = "/tmp/wherry-permissions-XXXXXX";
    expect(::mkdtemp(name) != nullptr && ::chdir(name) == 0, "cannot make a folder");
    path_ = name;
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_CORE, &limit);
  }
  ~DumpFolder() { std::filesystem::remove_all(path_); }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

// Tries all requests, and checks that the process notices nothing except the answer.
Permissions try_unnoticed() {
  const DumpFolder folder;
  struct sigaction action {};
  action.sa_handler = [](int) { signals_caught = signals_caught + 1; };
  for (const int signal : {SIGCHLD, SIGSYS, SIGALRM}) ::sigaction(signal, &action, nullptr);
  const std::set<int> descriptors = open_descriptors();
  const sigset_t mask = blocked_signals();
  errno = EDOM;
  const Permissions found = try_permissions();
  expect(errno == EDOM, "errno changed");
  const sigset_t mask_after = blocked_signals();
  for (int signal = 1; signal < NSIG; ++signal)
    expect(::sigismember(&mask, signal) == ::sigismember(&mask_after, signal),
           "the signal mask changed");
  expect(signals_caught == 0, "a signal was delivered");
  expect(open_descriptors() == descriptors, "a descriptor is left");
  expect(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "wait() finds a child");
  expect(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1 && errno == ECHILD, "a child is left");
  expect(folder.empty(), "a core dump was left");
  return found;
}

void check_passed(const test::Outcome& outcome) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.closed);
}

struct Forbidden {
  long number;
  std::vector<Request> requests;
};
const std::map<std::string, Forbidden> forbidden_calls = {
    {"userfaultfd", {SYS_userfaultfd, {Request::userfaultfd, Request::userfaultfd_user_mode}}},
    {"io_uring_setup", {SYS_io_uring_setup, {Request::io_uring}}},
};

// Checks that under the filter the forbidden requests have the expected answer, and the others the
// same as without it.
void expect_under_filter(const Forbidden& forbidden, FilterAction action, const Answer& expected) {
  const Permissions before = try_unnoticed();
  test::forbid_system_call(forbidden.number, action);
  const Permissions found = try_unnoticed();
  for (const Request request : all_requests) {
    const bool hit = std::ranges::find(forbidden.requests, request) != forbidden.requests.end();
    const Answer& wanted = hit ? expected : before[request];
    expect_answer(found, request, wanted.verdict, wanted.error);
  }
}

}  // namespace

TEST_CASE("the answers are those that a direct request gets, for root and for nobody") {
  for (const bool as_nobody : {false, true}) {
    check_passed(test::in_fresh_process([as_nobody] {
      if (as_nobody) test::become_nobody();
      const Permissions found = try_unnoticed();
      for (const Request request : all_requests) {
        const int error = ask_directly(request);
        // An old kernel.
        if ((error == 0 || error == EINVAL) && found[request].verdict == Verdict::too_old) continue;
        expect_answer(found, request, error == 0 ? Verdict::permitted : Verdict::refused, error);
      }
      expect(found.userfaultfd().has_value() == (found.userfaultfd_features != 0),
             "features without a userfaultfd, or a userfaultfd without features");
    }));
  }
}

TEST_CASE(
    "under a seccomp filter the answers report its effect, and the application notices nothing") {
  struct Expectation {
    FilterAction action;
    Answer answer;
  };
  const Expectation expectations[] = {
      {FilterAction::refuse_eperm, {Verdict::refused, EPERM}},
      {FilterAction::refuse_enosys, {Verdict::refused, ENOSYS}},
      {FilterAction::trap, {Verdict::killed, 0}},
      {FilterAction::kill, {Verdict::killed, 0}},
  };
  for (const auto& call : forbidden_calls) {
    for (const Expectation& expected : expectations) {
      for (const bool as_nobody : {false, true}) {
        INFO(call.first << ", action " << static_cast<int>(expected.action)
                        << (as_nobody ? ", nobody" : ""));
        check_passed(test::in_fresh_process([&] {
          if (as_nobody) test::become_nobody();
          expect_under_filter(call.second, expected.action, expected.answer);
        }));
      }
    }
  }
}

TEST_CASE("a filter that kills for every request is detected for one request after the other") {
  check_passed(test::in_fresh_process([] {
    test::become_nobody();
    for (const auto& [name, forbidden] : forbidden_calls)
      test::forbid_system_call(forbidden.number, FilterAction::kill);
    const Permissions found = try_unnoticed();
    for (const auto& [name, forbidden] : forbidden_calls)
      for (const Request request : forbidden.requests)
        expect_answer(found, request, Verdict::killed);
  }));
}

TEST_CASE("a call that never returns is given up, and no other request is tried") {
  check_passed(test::in_fresh_process([] {
    test::forbid_system_call(SYS_userfaultfd, FilterAction::hang);
    const Permissions found = try_unnoticed();
    expect_answer(found, Request::userfaultfd, Verdict::unending);
    for (const Request request :
         {Request::userfaultfd_device, Request::userfaultfd_user_mode, Request::io_uring})
      expect_answer(found, request, Verdict::not_tried);
    expect(!found.userfaultfd(), "userfaultfd is reported as permitted");
  }));
}

TEST_CASE("where no process can be started, no request is tried") {
  check_passed(test::in_fresh_process([] {
    test::become_nobody();
    rlimit before{};
    ::getrlimit(RLIMIT_NPROC, &before);
    const rlimit none{0, before.rlim_max};
    expect(::setrlimit(RLIMIT_NPROC, &none) == 0, "no limit");
    const Permissions found = try_unnoticed();
    ::setrlimit(RLIMIT_NPROC, &before);  // sanitizers start processes at the end
    for (const Request request : all_requests)
      expect_answer(found, request, Verdict::not_tried, EAGAIN);
  }));
}

TEST_CASE("processes that are killed affect neither the memory nor the other threads") {
  check_passed(test::in_fresh_process([] {
    std::atomic<bool> stop = false;
    std::atomic<int> errors = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&stop, &errors, thread] {
        while (!stop) {
          const std::vector<int> numbers(1000, thread);
          errno = ERANGE;
          for (const int number : numbers) errors += number != thread;
          errors += errno != ERANGE;
        }
      });
    }
    for (const auto& [name, forbidden] : forbidden_calls)
      test::forbid_system_call(forbidden.number, FilterAction::kill);
    for (int round = 0; round < 100; ++round) {
      const Permissions found = try_permissions();
      expect_answer(found, Request::userfaultfd, Verdict::killed);
      expect_answer(found, Request::io_uring, Verdict::killed);
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    expect(errors == 0, "a thread read a wrong value");
  }));
}

TEST_CASE("the best permitted access is chosen") {
  const auto with = [](std::vector<Request> permitted) {
    Permissions permissions;
    for (const Request request : permitted)
      permissions.answers[static_cast<std::size_t>(request)].verdict = Verdict::permitted;
    return permissions.userfaultfd();
  };
  using enum Request;
  CHECK(with({}) == std::nullopt);
  CHECK(with({io_uring}) == std::nullopt);
  CHECK(with({userfaultfd_user_mode}) == UffdAccess::user_mode_only);
  CHECK(with({userfaultfd_device}) == UffdAccess::device);
  CHECK(with({userfaultfd_user_mode, userfaultfd_device}) == UffdAccess::device);
  CHECK(with({userfaultfd, userfaultfd_device, userfaultfd_user_mode}) == UffdAccess::full);
}

}  // namespace wherry::impl::permissions_test
