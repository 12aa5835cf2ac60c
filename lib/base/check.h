// A broken invariant of ours ends the process with the values that broke it; expected kernel
// answers never come here.
#pragma once

#include <fmt/core.h>

namespace wherry::impl {

// Writes one line to stderr and aborts. Allocates nothing. `condition`: its text, or null.
[[noreturn]] void vcheck_failed(const char* file, int line, const char* condition,
                                fmt::string_view format, fmt::format_args values);

template <typename... Args>
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               fmt::format_string<Args...> format, Args&&... args) {
  vcheck_failed(file, line, condition, format, fmt::make_format_args(args...));
}

// check(condition, "format", values...): for conditions that only a bug can break. Always on.
#define WHERRY_CHECK(condition, ...) \
  (static_cast<bool>(condition)      \
       ? void(0)                     \
       : ::wherry::impl::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))

// The same where there is no condition: no path may lead there.
#define WHERRY_FAIL(...) ::wherry::impl::check_failed(__FILE__, __LINE__, nullptr, __VA_ARGS__)

}  // namespace wherry::impl
