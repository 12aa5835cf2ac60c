// What the library says on stderr, as a value. For a test that causes a line on purpose which is a
// failure of every other test (support/defects.py).
#pragma once

#include <functional>
#include <string>

namespace wherry::test {

// Runs the function, and returns what this process writes to stderr meanwhile, at most 64 KiB. That
// is not written anywhere else. Not for several threads at a time. Throws std::system_error.
std::string stderr_of(const std::function<void()>& function);

}  // namespace wherry::test
