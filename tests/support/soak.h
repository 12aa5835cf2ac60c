// What tools/soak asks of a test that it runs for long.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace wherry::test {

// WHERRY_TEST_SECONDS: the test runs with new seeds for so long, and does not stop at a failure.
std::optional<std::chrono::seconds> soak_time();

// Writes a file into WHERRY_TEST_FOLDER, which holds what a failure leaves; nothing where that is
// not set.
void keep_for_soak(const std::string& name, const std::string& text);

}  // namespace wherry::test
