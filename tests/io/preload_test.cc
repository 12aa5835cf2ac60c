// libwherry_io by LD_PRELOAD, for a program that was not built for it. WHERRY_TEST_IO_LIBRARY and
// WHERRY_TEST_IO_READER are the paths of both.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "support/child.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::test {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  expect(value != nullptr, std::string(name) + " is not set");
  return value;
}

Outcome run_reader(bool preloaded, bool restricted) {
  const std::string library = from_environment("WHERRY_TEST_IO_LIBRARY");
  const std::string reader = from_environment("WHERRY_TEST_IO_READER");
  return in_fresh_process([&] {
    if (preloaded) ::setenv("LD_PRELOAD", library.c_str(), 1);
    // In a build with the address sanitizer its runtime is loaded second, which is harmless here.
    const char* const options = std::getenv("ASAN_OPTIONS");
    const std::string more = std::string(options ? options : "") + ":verify_asan_link_order=0";
    ::setenv("ASAN_OPTIONS", more.c_str(), 1);
    if (restricted) leave_user_mode_only_userfaultfd();
    ::execl(reader.c_str(), reader.c_str(), nullptr);
    expect(false, "cannot start " + reader);
  });
}

TEST_CASE("a preloaded library makes the system calls of any program find managed memory", "[io]") {
  for (const bool restricted : {false, true}) {
    const Outcome outcome = run_reader(/*preloaded=*/true, restricted);
    INFO(outcome.describe());
    CHECK(outcome.passed());
    CHECK(outcome.out == "read and written\n");
  }
}

TEST_CASE("without it the same program gets EFAULT where faults in system calls cannot be answered",
          "[io]") {
  const Outcome outcome = run_reader(/*preloaded=*/false, /*restricted=*/true);
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Catch::Contains("read: Bad address"));
}

}  // namespace
}  // namespace wherry::test
