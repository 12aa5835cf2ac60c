// The main() of every Catch2 test program. Exit codes as Meson reads them: 0 passed, 1 failed, 77
// skipped. Catch2's own main returns the number of failed assertions, and 77 of them would count as
// a skip.
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace {

constexpr int exit_passed = 0;
constexpr int exit_failed = 1;
constexpr int exit_skipped = 77;

}  // namespace

int main(int argc, char** argv) {
  // The caller's environment may select real GPUs.
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  const char* const needs = std::getenv("WHERRY_TEST_NEEDS");
  std::istringstream words{needs != nullptr ? needs : ""};
  for (std::string need; words >> need;) {
    if (const auto reason = wherry::test::why_missing(need)) {
      std::printf("SKIP: %s\n", reason->c_str());
      return exit_skipped;
    }
  }
  std::printf("WHERRY_TEST_SEED=%llu WHERRY_TEST_SCALE=%g\n",
              static_cast<unsigned long long>(wherry::test::seed()), wherry::test::scale());
  std::fflush(stdout);
  return Catch::Session().run(argc, argv) == 0 ? exit_passed : exit_failed;
}
