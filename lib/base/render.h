// Text that is formatted into memory of the caller, without allocating.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <span>

namespace wherry::impl {

// Writes as much of the text as fits, without a null character. Returns the number of characters
// written. Signal handlers may call it.
std::size_t vrender(std::span<char> to, fmt::string_view format, fmt::format_args values);

template <typename... Args>
std::size_t render(std::span<char> to, fmt::format_string<Args...> format, Args&&... args) {
  return vrender(to, format, fmt::make_format_args(args...));
}

}  // namespace wherry::impl
