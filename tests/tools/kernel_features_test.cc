// The kernel features that `wherry info` shows, and the changes that it advises.
#include "kernel_features.h"

#include <cerrno>
#include <set>

#include "support/catch.h"

namespace wherry::tool::kernel_features_test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using impl::Answer;
using Verdict = Answer::Verdict;

Answer refused(int error) {
  return {Verdict::refused, error};
}

std::string io_uring_remedy_of(const Answer& answer, std::optional<int> disabled = 0) {
  return io_uring_remedy({{Answer{}, Answer{}, Answer{}, answer}, 0}, disabled);
}

TEST_CASE("every missing capability says how to enable it, and a present one says nothing") {
  for (const KernelFeatures& features : {KernelFeatures{}, probe_features()}) {
    std::set<std::string> names;
    for (const Capability& row : features.capabilities()) {
      INFO(row.name);
      CHECK(names.insert(row.name).second);
      CHECK_FALSE(row.what_for.empty());
      CHECK(row.how_to_enable.empty() == row.available);
    }
    CHECK(names.size() >= 9);
  }
}

TEST_CASE("the userfaultfd features are consistent, on a supported kernel") {
  const KernelFeatures features = probe_features();
  CHECK_FALSE(features.kernel_release.empty());
  if (!features.permissions.userfaultfd()) CHECK(features.permissions.userfaultfd_features == 0);
  CHECK(features.pidfd);
}

TEST_CASE("probing leaves no descriptor and no mapping behind") {
  probe_features();
  const Limits before = read_limits();
  for (int round = 0; round < 10; ++round) probe_features();
  const Limits after = read_limits();
  CHECK(after.open_files == before.open_files);
  CHECK(after.mappings <= before.mappings + 1);  // malloc may grow its heap once
  CHECK(before.mappings > 0);
  CHECK(before.mappings < before.mappings_max);
  CHECK(before.open_files > 0);
}

TEST_CASE(
    "kept holes need no remedy, and filled ones a newer kernel than the one that filled them") {
  using Found = impl::HoleProbe::Found;
  CHECK(holes_remedy({Found::kept}, "6.18.1", true).empty());
  CHECK_THAT(holes_remedy({Found::filled}, "6.1.0", true),
             ContainsSubstring("6.4 or newer") && ContainsSubstring("6.1.0"));
}

TEST_CASE("holes that could not be tried have the reason, and no advice of another kernel") {
  using Found = impl::HoleProbe::Found;
  const impl::HoleProbe busy{Found::not_tried, "merging pages", ENOMEM};
  CHECK_THAT(holes_remedy(busy, "6.18.1", true),
             ContainsSubstring("merging pages failed (Cannot allocate memory)") &&
                 ContainsSubstring("free memory") && !ContainsSubstring("Linux"));
  const impl::HoleProbe unable{Found::not_tried, "mapping a file", EPERM};
  CHECK_THAT(holes_remedy(unable, "6.18.1", true),
             ContainsSubstring("mapping a file failed (Operation not permitted)") &&
                 !ContainsSubstring("free memory"));
  CHECK(holes_remedy(unable, "6.18.1", false) == "what the line above needs");
}

TEST_CASE("a permitted io_uring needs no remedy") {
  CHECK(io_uring_remedy_of({Verdict::permitted, 0}, 1).empty());
}

TEST_CASE("io_uring is enabled by the setting that disabled it, or by the filter's option") {
  CHECK(io_uring_remedy_of(refused(EPERM), 2) == "as root: sysctl kernel.io_uring_disabled=0");
  CHECK(io_uring_remedy_of(refused(EPERM), 1) == "as root: sysctl kernel.io_uring_disabled=0");
  for (const Answer& answer : {refused(EPERM), refused(ENOSYS), Answer{Verdict::killed, 0}})
    CHECK_THAT(io_uring_remedy_of(answer), StartsWith("docker run --security-opt seccomp="));
  CHECK_THAT(io_uring_remedy_of(refused(EPERM), std::nullopt), StartsWith("docker run"));
  CHECK_THAT(io_uring_remedy_of(refused(ENOSYS), std::nullopt),
             ContainsSubstring("CONFIG_IO_URING"));
}

TEST_CASE("limits that prevent io_uring are named") {
  CHECK_THAT(io_uring_remedy_of({Verdict::not_tried, EAGAIN}), ContainsSubstring("ulimit -u"));
  CHECK_THAT(io_uring_remedy_of(refused(ENOMEM)), ContainsSubstring("ulimit -l"));
}

}  // namespace
}  // namespace wherry::tool::kernel_features_test
