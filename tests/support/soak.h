// Functions for tests that tools/soak runs for a long time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace wherry::test {

// WHERRY_TEST_SECONDS: the test runs with new seeds for this time, and does not stop at a failure.
std::optional<std::chrono::seconds> soak_time();

// Writes a file into WHERRY_TEST_FOLDER, where tests leave what describes a failure. Does nothing
// if the variable is not set.
void keep_for_soak(const std::string& name, const std::string& text);

}  // namespace wherry::test
