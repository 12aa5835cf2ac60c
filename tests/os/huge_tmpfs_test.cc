#include "os/files/huge_tmpfs.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <set>
#include <string_view>

#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/nobody.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::test::huge_tmpfs_test {

using namespace wherry;
using namespace wherry::impl;
using test::expect;
using Way = HugeTmpfsFiles::Way;

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// With a 2 MiB page, one byte takes all of it.
void expect_huge_pages(const Fd& file) {
  expect(::ftruncate(file.get(), huge_page) == 0 && ::pwrite(file.get(), "x", 1, 0) == 1,
         "the file cannot be written");
  struct stat status {};
  ::fstat(file.get(), &status);
  expect(static_cast<std::size_t>(status.st_blocks) * 512 == huge_page,
         "the file has no 2 MiB page");
}

// Makes two files, and checks that the process notices nothing except the result.
HugeTmpfsFiles create_unnoticed() {
  const std::set<int> before = test::open_descriptors();
  errno = EDOM;
  HugeTmpfsFiles made = create_on_huge_tmpfs("huge-test", 2);
  expect(errno == EDOM, "errno changed");
  std::set<int> after = test::open_descriptors();
  for (const Fd& file : made.files) after.erase(file.get());
  expect(made.files.empty() || made.files.size() == 2, "not as many files as asked for");
  expect(after == before, "a descriptor is left");
  expect(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1 && errno == ECHILD, "a child is left");
  return made;
}

void check_in_child(const std::function<void()>& body) {
  const test::Outcome outcome = test::in_fresh_process(body);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// Whether Linux permits user namespaces to an ordinary user.
bool has_user_namespaces() {
  return test::in_fresh_process([] {
           test::become_nobody();
           expect(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "no user namespaces");
         })
      .passed();
}

}  // namespace

TEST_CASE("a file of a tmpfs of its own has huge pages") {
  if (::geteuid() != 0) return;  // the next test is for ordinary users
  check_in_child([] {
    const HugeTmpfsFiles made = create_unnoticed();
    expect(made.way == Way::own_privilege, reason_of(made));
    for (const Fd& file : made.files) expect_huge_pages(file);
  });
}

TEST_CASE("an ordinary user gets a file with huge pages through a user namespace") {
  if (!has_user_namespaces()) {
    WARN("skipped: user namespaces are not permitted here");
    return;
  }
  check_in_child([] {
    test::become_nobody();
    const HugeTmpfsFiles made = create_unnoticed();
    expect(made.way == Way::user_namespace, reason_of(made));
    for (const Fd& file : made.files) expect_huge_pages(file);
    struct stat status {};
    expect(::fstat(made.files.front().get(), &status) == 0 && status.st_uid == ::geteuid(),
           "the file belongs to another user");
  });
}

TEST_CASE("what forbids a tmpfs of its own is named, and nothing is left") {
  struct Row {
    long call;
    test::FilterAction action;
    const char* refused;
    int error;
  };
  const Row row = GENERATE(Row{SYS_clone, test::FilterAction::refuse_eperm, "clone", EPERM},
                           Row{SYS_fsopen, test::FilterAction::refuse_eperm, "fsopen", EPERM},
                           Row{SYS_fsopen, test::FilterAction::refuse_enosys, "fsopen", ENOSYS},
                           Row{SYS_fsmount, test::FilterAction::kill, "fsmount", EACCES});
  CAPTURE(row.refused);
  check_in_child([row] {
    test::become_nobody();
    test::forbid_system_call(row.call, row.action);
    const HugeTmpfsFiles made = create_unnoticed();
    expect(made.files.empty() && made.way == Way::none, "a file was made");
    expect(std::string_view(made.refused) == row.refused && made.error == row.error,
           reason_of(made));
  });
}

}  // namespace wherry::test::huge_tmpfs_test
