// Checks of the library's own invariants. A violation prints the values and aborts. Expected errors
// of system calls are not reported here.
#pragma once

#include <fmt/core.h>

namespace wherry::impl {

// Writes one line to stderr and aborts. Allocates nothing. `condition` is the failed condition's
// source text, or null.
[[noreturn]] void vcheck_failed(const char* file, int line, const char* condition,
                                fmt::string_view format, fmt::format_args values);

template <typename... Args>
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               fmt::format_string<Args...> format, Args&&... args) {
  vcheck_failed(file, line, condition, format, fmt::make_format_args(args...));
}

// WHERRY_CHECK(condition, "format", values...) tests a condition that only a bug in the library can
// make false. It is active in all builds.
#define WHERRY_CHECK(condition, ...) \
  (static_cast<bool>(condition)      \
       ? void(0)                     \
       : ::wherry::impl::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))

// WHERRY_FAIL("format", values...) always aborts, for code that must be unreachable.
#define WHERRY_FAIL(...) ::wherry::impl::check_failed(__FILE__, __LINE__, nullptr, __VA_ARGS__)

}  // namespace wherry::impl
