#include "os/process/features.h"

#include <catch2/catch.hpp>
#include <set>

namespace wherry::impl {

TEST_CASE("every missing capability says how to enable it, and a present one says nothing") {
  for (const Features& features : {Features{}, probe_features()}) {
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
  const Features features = probe_features();
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

}  // namespace wherry::impl
