// Waiting for a condition that another thread or process makes true.
#pragma once

#include <chrono>
#include <functional>

namespace wherry::test {

// Waits until condition() is true, at most for `limit`. Returns whether it is true.
bool comes_true(const std::function<bool()>& condition,
                std::chrono::seconds limit = std::chrono::seconds(20));

}  // namespace wherry::test
