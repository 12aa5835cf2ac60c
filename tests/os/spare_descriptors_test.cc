#include "os/files/spare_descriptors.h"

#include <sys/resource.h>

#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::spare_descriptors_test {

using namespace wherry::impl;
using wherry::test::expect;

namespace {

constexpr rlim_t own_limit = 64;

void limit_to(rlim_t hard) {
  const rlimit limit{own_limit, hard};
  expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "cannot set the limit");
}
Fd open_one() {
  Fd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  expect(static_cast<bool>(fd), "no descriptor is left");
  return fd;
}

}  // namespace

TEST_CASE("many descriptors are placed beyond the application's limit", "[os]") {
  const auto outcome = wherry::test::in_fresh_process([] {
    limit_to(1024);
    std::vector<Fd> kept;
    for (int i = 0; i < 200; ++i) kept.push_back(move_apart(open_one()));
    expect(open_one().get() <= static_cast<int>(own_limit / 2),
           "the application's numbers are in use");
    int apart = 0;
    for (const Fd& fd : kept) {
      expect(fd.get() <= static_cast<int>(own_limit / 2) || fd.get() >= static_cast<int>(own_limit),
             "a descriptor has one of the application's numbers");
      expect(::fcntl(fd.get(), F_GETFD) == FD_CLOEXEC,
             "a descriptor is closed, or not close-on-exec");
      apart += fd.get() >= static_cast<int>(own_limit);
    }
    expect(apart > 160, "too few are beyond the application's limit");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("descriptors stay where they are if the limit cannot be raised", "[os]") {
  const auto outcome = wherry::test::in_fresh_process([] {
    limit_to(own_limit);
    std::vector<Fd> kept;
    for (int i = 0; i < 50; ++i) kept.push_back(move_apart(open_one()));
    expect(kept.back().get() < static_cast<int>(own_limit), "a descriptor is beyond the limit");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::spare_descriptors_test
