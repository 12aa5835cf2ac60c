// The limits of each trap, as `wherry info` prints them.
#include "trap_limits.h"

#include "support/catch.h"

namespace wherry::test::trap_limits_test {

using namespace wherry::impl;
using wherry::tool::limits_of;

TEST_CASE("the limits of each trap are listed, and the best one has none") {
  CHECK(limits_of({{TrapKind::userfaultfd, UffdAccess::full}, {}, {}}).empty());
  CHECK(limits_of({{TrapKind::userfaultfd, UffdAccess::device}, {}, {}}).empty());
  const auto of_user_mode =
      limits_of({{TrapKind::userfaultfd, UffdAccess::user_mode_only}, {}, {}});
  CHECK(limits_of({{TrapKind::sigbus, UffdAccess::full}, {}, {}}) == of_user_mode);
  const auto of_mprotect = limits_of({{TrapKind::mprotect, {}}, {}, {}});
  REQUIRE(of_user_mode.size() == 1);
  CHECK_THAT(of_user_mode.front(), Catch::Matchers::ContainsSubstring("EFAULT") &&
                                       Catch::Matchers::ContainsSubstring("wherryTouchPages()"));
  REQUIRE(of_mprotect.size() > 1);
  CHECK(of_mprotect.front() == of_user_mode.front());
  for (const std::string& limit : of_mprotect) {
    CHECK_FALSE(limit.empty());
    CHECK(limit.find('\n') == std::string::npos);
  }
}

}  // namespace wherry::test::trap_limits_test
