// libwherry_io by LD_PRELOAD, for a program that was not built for it. WHERRY_TEST_IO_LIBRARY and
// WHERRY_TEST_IO_READER are the paths of both. WHERRY_TEST_DIRECT_LOADER is a program that loads
// libwherry, which is WHERRY_TEST_LIBRARY.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/catch.h"
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

// `preloaded`: the file of a library; empty: none.
Outcome run(const std::string& program, const std::string& argument, const std::string& preloaded,
            bool restricted) {
  return in_fresh_process([&] {
    if (!preloaded.empty()) ::setenv("LD_PRELOAD", preloaded.c_str(), 1);
    // In a build with the address sanitizer its runtime is loaded second, which is harmless here.
    const char* const options = std::getenv("ASAN_OPTIONS");
    const std::string more = std::string(options ? options : "") + ":verify_asan_link_order=0";
    ::setenv("ASAN_OPTIONS", more.c_str(), 1);
    if (restricted) leave_user_mode_only_userfaultfd();
    ::execl(program.c_str(), program.c_str(), argument.c_str(), nullptr);
    expect(false, "cannot start " + program);
  });
}

Outcome run_reader(bool preloaded, bool restricted) {
  return run(from_environment("WHERRY_TEST_IO_READER"), "",
             preloaded ? from_environment("WHERRY_TEST_IO_LIBRARY") : "", restricted);
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
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("read: Bad address"));
}

TEST_CASE("direct reads of a program that loads the library later need a preloaded library",
          "[io]") {
  const std::string wherry = from_environment("WHERRY_TEST_LIBRARY");
  const std::string loader = from_environment("WHERRY_TEST_DIRECT_LOADER");
  for (const bool restricted : {false, true}) {
    const Outcome alone = run(loader, wherry, "", restricted);
    INFO(alone.describe());
    CHECK(alone.out == "Linux got this memory\n");
    for (const std::string& library : {from_environment("WHERRY_TEST_IO_LIBRARY"), wherry}) {
      const Outcome outcome = run(loader, wherry, library, restricted);
      INFO(library << ": " << outcome.describe());
      CHECK(outcome.out == "Linux got other memory, and the data is here\n");
    }
  }
}

}  // namespace
}  // namespace wherry::test
