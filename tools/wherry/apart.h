// Work in a process of its own, for what is chosen for a process's life: devices, policies.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>

namespace wherry::tool {

// Has a forked child do work(), which writes `bytes` of a result. Nothing written: why not, in one
// line: what was thrown, or that it took longer than the limit, or that its process ended.
// Requires: the library has not been started. Throws std::system_error.
std::string run_apart(const std::function<void()>& work, void* result, std::size_t bytes,
                      int limit_ms = 120'000);

// Value is filled by `work`, which gets a reference to it. Empty: it is.
template <typename Value, typename Work>
std::string run_apart(Value& value, const Work& work) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return run_apart([&] { work(value); }, &value, sizeof value);
}

}  // namespace wherry::tool
