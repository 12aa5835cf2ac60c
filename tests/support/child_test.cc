// Which lines of a child process the test program prints, too: those that make any test fail.
#include "support/child.h"

#include <cstdio>
#include <string>

#include "support/captured_stderr.h"
#include "support/catch.h"

namespace wherry::test::child_test {
namespace {

constexpr const char* defect = "the page never came free";

}  // namespace

TEST_CASE("a line that only a defect can cause is printed by the test, too", "[support]") {
  const std::string passed_on = stderr_of([] {
    const Outcome outcome =
        in_fresh_process([] { std::fprintf(stderr, "wherry: 0x1000: %s\n", defect); });
    CHECK(outcome.passed());
    CHECK(outcome.err == "wherry: 0x1000: " + std::string(defect) + "\n");
  });
  CHECK(passed_on == "in a child process: " + std::string(defect) + "\n");
}

TEST_CASE("other lines are not", "[support]") {
  const std::string passed_on = stderr_of(
      [] { (void)in_fresh_process([] { std::fputs("wherry: another line\n", stderr); }); });
  CHECK(passed_on.empty());
}

}  // namespace wherry::test::child_test
