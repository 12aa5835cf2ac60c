#include "os/process/userfaultfd_remedy.h"

#include <cerrno>
#include <optional>
#include <string>

#include "support/catch.h"

namespace wherry::impl::userfaultfd_remedy_test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Verdict = Answer::Verdict;

constexpr Answer permitted{Verdict::permitted, 0};
constexpr Answer killed{Verdict::killed, 0};

Permissions userfaultfd_answers(const Answer& call, const Answer& device, const Answer& user_mode) {
  return {{call, device, user_mode, {}}, 0};
}

Answer refused(int error) {
  return {Verdict::refused, error};
}

// The remedy when the first two requests are refused. `user_mode` is the third answer.
std::string remedy_of(const Answer& user_mode, std::optional<int> setting = 0) {
  return userfaultfd_remedy(userfaultfd_answers(refused(EPERM), refused(EACCES), user_mode),
                            setting);
}

}  // namespace

TEST_CASE("a permitted request needs no remedy") {
  CHECK(userfaultfd_remedy(userfaultfd_answers(permitted, refused(EACCES), permitted), 0).empty());
  CHECK(userfaultfd_remedy(userfaultfd_answers(killed, permitted, killed), 0).empty());
}

TEST_CASE("missing privilege is remedied by a setting, a filter by an option of the container") {
  CHECK(remedy_of(permitted) == "as root: sysctl vm.unprivileged_userfaultfd=1");
  // The setting permits the call, so a filter must be looking at its flags.
  CHECK_THAT(remedy_of(permitted, 1), StartsWith("docker run --security-opt seccomp="));
  CHECK_THAT(userfaultfd_remedy(userfaultfd_answers(killed, refused(EACCES), permitted), 0),
             StartsWith("docker run"));
  for (const Answer& answer :
       {refused(EPERM), refused(EACCES), refused(ENOSYS), killed, Answer{Verdict::unending, 0}})
    CHECK_THAT(remedy_of(answer), StartsWith("docker run --security-opt seccomp=") &&
                                      ContainsSubstring("userfaultfd(2)"));
}

TEST_CASE("a kernel that lacks the feature, or is too old, is named as the cause") {
  CHECK(remedy_of(refused(ENOSYS), std::nullopt) == "a kernel with CONFIG_USERFAULTFD");
  CHECK(remedy_of({Verdict::too_old, EINVAL}) == "Linux 5.19 or newer");
}

TEST_CASE("limits that prevent the request are named") {
  CHECK_THAT(remedy_of({Verdict::not_tried, EAGAIN}), ContainsSubstring("ulimit -u"));
  CHECK_THAT(remedy_of(refused(EMFILE)), ContainsSubstring("ulimit -n"));
}

}  // namespace wherry::impl::userfaultfd_remedy_test
