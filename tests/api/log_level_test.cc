// WHERRY_LOG: which lines the log has, and their format.
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::log_level_test {
namespace {

using Catch::Matchers::ContainsSubstring;

// Starts the library with this WHERRY_LOG (null: unset), allocates memory, and makes a call that
// fails. A variable that Wherry does not know is set, too, which gives a warning.
Outcome run(const char* level) {
  const Outcome outcome = in_fresh_process([=] {
    ::unsetenv("WHERRY_LOG");
    if (level != nullptr) ::setenv("WHERRY_LOG", level, 1);
    ::setenv("WHERRY_TRAPS", "x", 1);
    const Session session("capacity=16M");
    const Managed<int> memory(1);
    expect(cuMemFree(0x1000) == CUDA_ERROR_INVALID_VALUE, "cuMemFree");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  return outcome;
}

constexpr const char* warning =
    "WHERRY_TRAPS is not a setting of Wherry: did you mean WHERRY_TRAP?";
constexpr const char* failure =
    "cuMemFree: CUDA_ERROR_INVALID_VALUE (invalid argument): no memory "
    "of the library is at 0x1000";

// Whether each line has a time, a process and one of these levels.
bool is_stamped(const std::string& log, const std::string& levels) {
  const std::regex stamped("wherry: \\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z \\d+ (" +
                           levels + "): .+");
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (!std::regex_match(line, stamped)) return false;
  return true;
}

}  // namespace

TEST_CASE("without WHERRY_LOG the log has warnings, without a time") {
  for (const char* level : {static_cast<const char*>(nullptr), ""})
    CHECK(run(level).err == std::string("wherry: ") + warning + "\n");
}

TEST_CASE("WHERRY_LOG=off: the log is empty") {
  CHECK(run("off").err.empty());
}

TEST_CASE("WHERRY_LOG=error: the log has no warnings") {
  CHECK(run("error").err.empty());
}

TEST_CASE("WHERRY_LOG=warning: the same lines as without it, with time, process and level") {
  const std::string log = run("warning").err;
  CHECK(is_stamped(log, "warning"));
  CHECK_THAT(log, ContainsSubstring(std::string(" warning: ") + warning + "\n"));
}

TEST_CASE("WHERRY_LOG=info: the log has the start, the devices, failed calls and the end") {
  const std::string log = run("info").err;
  INFO(log);
  CHECK(is_stamped(log, "warning|info"));
  CHECK_THAT(log, ContainsSubstring(" info: started: trap ") && ContainsSubstring(", policy "));
  CHECK_THAT(log, ContainsSubstring(" info: device 0: isolated, 16 MiB on node "));
  CHECK_THAT(log, ContainsSubstring(" info: device 0 runs in process "));
  CHECK_THAT(log, ContainsSubstring(std::string(" info: ") + failure));
  CHECK_THAT(log, ContainsSubstring(" info: the program ends: "));
}

TEST_CASE("WHERRY_LOG=debug: the log has allocations, too") {
  const std::string log = run("debug").err;
  INFO(log);
  CHECK(is_stamped(log, "warning|info|debug"));
  CHECK_THAT(log, ContainsSubstring("+4 is allocated: managed memory") &&
                      ContainsSubstring("+4 is freed: managed"));
}

TEST_CASE("WHERRY_LOG: a failed call of the runtime API is one line") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_LOG", "info", 1);
    const Session session("capacity=16M");
    expect(cudaFree(reinterpret_cast<void*>(0x1000)) == cudaErrorInvalidValue, "cudaFree");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  const std::size_t first = outcome.err.find("is at 0x1000");
  REQUIRE(first != std::string::npos);
  CHECK(outcome.err.find("is at 0x1000", first + 1) == std::string::npos);
}

TEST_CASE("WHERRY_LOG: an unknown level is refused by one line") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_LOG", "loud", 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit");
    expect(std::string(wherryGetLastErrorMessage()).find("'loud' is no level") != std::string::npos,
           wherryGetLastErrorMessage());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err ==
        "wherry: WHERRY_LOG: 'loud' is no level: off, error, warning, info or debug\n");
}

}  // namespace wherry::test::log_level_test
