// Runs work in a process of its own, because devices and policies are set once for a process.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

namespace wherry::tool {

// Runs work() in a forked child, which fills `bytes` bytes of a result. Returns an empty string, or
// one line that says why there is no result: an exception, the time limit, or the end of the
// process. Requires: the library has not been started. Throws std::system_error.
std::string run_apart(const std::function<void()>& work, void* result, std::size_t bytes,
                      int limit_ms = 120'000);

// Runs work(value) in a child, which fills `value`. Returns "" or a reason.
template <typename Value, typename Work>
std::string run_apart(Value& value, const Work& work) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return run_apart([&] { work(value); }, &value, sizeof value);
}

}  // namespace wherry::tool
