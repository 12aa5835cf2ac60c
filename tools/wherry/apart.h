// Runs work in a process of its own, for settings that last as long as a process: devices,
// policies.
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

// work(value) fills the value. Returns an empty string if it did.
template <typename Value, typename Work>
std::string run_apart(Value& value, const Work& work) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return run_apart([&] { work(value); }, &value, sizeof value);
}

}  // namespace wherry::tool
