#include "os/process/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "base/patience.h"
#include "os/process/machine_names.h"
#include "support/catch.h"
#include "support/child.h"

namespace wherry::impl::process_test {
namespace {

// Runs one more thread during its lifetime.
class SecondThread {
 public:
  SecondThread() : thread_([this] { stop_.wait(false); }) {}
  ~SecondThread() {
    stop_ = true;
    stop_.notify_all();
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

void exit_with_argument(void* argument) {
  ::_exit(*static_cast<int*>(argument));
}

void wait_for_ever(void*) {
  for (;;) ::pause();
}

bool wait_reports_nothing() {
  errno = 0;
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

const std::map<std::string, SpawnMethod> child_methods = {
    {"clone", SpawnMethod::clone},
    {"sibling", SpawnMethod::sibling},
    {"risky clone", SpawnMethod::risky_clone},
};

TEST_CASE(
    "A spawned process runs its entry with a copy of memory; only reap() returns its result") {
  for (const auto& [name, method] : child_methods) {
    INFO(name);
    int code = 7;
    const SpawnedProcess process = spawn_process(method, exit_with_argument, &code);
    code = 8;
    REQUIRE(wait_for_end(process.pidfd, Patience(10'000'000'000)));
    CHECK(wait_reports_nothing());
    if (!process.ours) continue;  // this Linux cannot make siblings
    const auto end = reap(process.pidfd);
    REQUIRE(end);
    CHECK_FALSE(end->by_signal);
    CHECK(end->code == 7);
    CHECK_FALSE(reap(process.pidfd));
  }
}

TEST_CASE("A spawned process runs until it is killed, and its result says so") {
  for (const auto& [name, method] : child_methods) {
    INFO(name);
    const SpawnedProcess process = spawn_process(method, wait_for_ever, nullptr);
    CHECK_FALSE(wait_for_end(process.pidfd, Patience(20'000'000)));
    CHECK_FALSE(reap(process.pidfd));
    CHECK(wait_reports_nothing());
    kill_process(process.pidfd);
    REQUIRE(wait_for_end(process.pidfd, Patience(10'000'000'000)));
    const auto end = reap(process.pidfd);
    if (!process.ours) continue;
    REQUIRE(end);
    CHECK(end->by_signal);
    CHECK(end->code == SIGKILL);
  }
}

TEST_CASE("An orphan is no child of this process, and its descriptor reports its end") {
  const SpawnedProcess process = spawn_process(SpawnMethod::orphan, wait_for_ever, nullptr);
  CHECK_FALSE(process.ours);
  CHECK(wait_reports_nothing());
  CHECK_FALSE(wait_for_end(process.pidfd, Patience(20'000'000)));
  kill_process(process.pidfd);
  CHECK(wait_for_end(process.pidfd, Patience(10'000'000'000)));
  CHECK_FALSE(reap(process.pidfd));
}

TEST_CASE("The method fits the kind of program") {
  CHECK(choose_spawn_method() == SpawnMethod::clone);
  {
    const SecondThread thread;
    const SpawnMethod method = choose_spawn_method();
    CHECK((method == SpawnMethod::sibling || method == SpawnMethod::orphan));
  }
  // An orphan would become a child again if the program adopts orphans, so it is not used there.
  const auto outcome = test::in_fresh_process([] {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const SecondThread thread;
    if (choose_spawn_method() == SpawnMethod::orphan) std::abort();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("fork() in a spawned sibling is an ordinary fork") {
  const SecondThread thread;
  const SpawnedProcess process = spawn_process(
      SpawnMethod::sibling,
      [](void*) {
        const pid_t forked = ::fork();
        if (forked == 0) ::_exit(3);
        int status = 0;
        const bool reaped = ::waitpid(forked, &status, 0) == forked;
        ::_exit(reaped && WIFEXITED(status) ? WEXITSTATUS(status) : 99);
      },
      nullptr);
  REQUIRE(wait_for_end(process.pidfd, Patience(10'000'000'000)));
  if (!process.ours) return;
  const auto end = reap(process.pidfd);
  REQUIRE(end);
  CHECK(end->code == 3);
}

TEST_CASE("Fork handlers of the application run around a sibling, as around fork()") {
  static int prepared = 0;
  static int in_parent = 0;
  static int in_child = 0;
  ::pthread_atfork([] { ++prepared; }, [] { ++in_parent; }, [] { ++in_child; });
  const SecondThread thread;
  const SpawnedProcess process = spawn_process(
      SpawnMethod::sibling, [](void*) { ::_exit(10 * prepared + in_child); }, nullptr);
  CHECK(prepared == 1);
  CHECK(in_parent == 1);
  CHECK(in_child == 0);
  REQUIRE(wait_for_end(process.pidfd, Patience(10'000'000'000)));
  if (!process.ours) return;
  const auto end = reap(process.pidfd);
  REQUIRE(end);
  CHECK(end->code == 11);
}

}  // namespace

TEST_CASE("versions of Linux are compared by number") {
  CHECK(linux_is_older_than(1000, 0));
  CHECK_FALSE(linux_is_older_than(2, 6));
  const std::string release = kernel_release();
  const auto major = static_cast<unsigned>(std::stoul(release));
  const auto minor = static_cast<unsigned>(std::stoul(release.substr(release.find('.') + 1)));
  CHECK_FALSE(linux_is_older_than(major, minor));
  CHECK(linux_is_older_than(major, minor + 1));
  CHECK(linux_is_older_than(major + 1, 0));
}

}  // namespace wherry::impl::process_test
