// The trap section of `wherry info`, with userfaultfd forbidden in different ways.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/nobody.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::test::info_trap_test {

using Catch::Matchers::ContainsSubstring;

namespace {

// The program's output for an ordinary user under the filter.
Outcome info_under(FilterAction action, const char* format) {
  return in_fresh_process([action, format] {
    // Opened before the user changes, because the program's folder may be closed to other users.
    const int program = ::open(std::getenv("WHERRY_TEST_TOOL"), O_RDONLY | O_CLOEXEC);
    expect(program >= 0, "WHERRY_TEST_TOOL does not name the program");
    ::setenv("WHERRY_DEVICES", "capacity=4M", 1);
    ::unsetenv("WHERRY_TRAP");
    become_nobody();
    forbid_system_call(SYS_userfaultfd, action);
    forbid_system_call(SYS_io_uring_setup, action);
    const char* const arguments[] = {"wherry", "info", format, nullptr};
    ::fexecve(program, const_cast<char* const*>(arguments), environ);
    expect(false, "the program cannot be started");
  });
}

}  // namespace

TEST_CASE("info reports which trap runs, why, what it cannot do, and how to get a better one") {
  for (const FilterAction action :
       {FilterAction::refuse_eperm, FilterAction::refuse_enosys, FilterAction::kill}) {
    const Outcome outcome = info_under(action, nullptr);
    INFO(outcome.describe());
    CHECK(outcome.signal == 0);
    CHECK_FALSE(outcome.timed_out);
    CHECK_THAT(outcome.out, ContainsSubstring("runs        mprotect (WHERRY_TRAP)"));
    const bool kills = action == FilterAction::kill;
    CHECK_THAT(outcome.out,
               ContainsSubstring(kills ? "because     userfaultfd kills the calling process"
                                       : "because     userfaultfd is refused"));
    CHECK_THAT(outcome.out, ContainsSubstring("cannot      serve system calls") &&
                                ContainsSubstring("wherryTouchPages()"));
    CHECK_THAT(outcome.out, ContainsSubstring("for better  docker run --security-opt seccomp="));
    // On a machine with more than two CPUs each pool has several files, and copiers write to them.
    CHECK_THAT(outcome.out, ContainsSubstring("threads, for want of io_uring") ||
                                ContainsSubstring("copiers, to "));
  }
}

TEST_CASE("info reports the same as JSON") {
  const Outcome outcome = info_under(FilterAction::kill, "--json");
  INFO(outcome.describe());
  CHECK(outcome.signal == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("\"runs\": \"mprotect\"") &&
                              ContainsSubstring("\"how_to_enable_better\": \"docker"));
  CHECK_THAT(outcome.out, ContainsSubstring("\"io_uring\": false"));
}

}  // namespace wherry::test::info_trap_test
