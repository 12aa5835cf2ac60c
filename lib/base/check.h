// A broken invariant of ours ends the process with the values that broke it; expected kernel
// answers never come here.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace wherry::impl {

// Writes one line to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, std::string_view what);

// check(condition, "format", values...): for conditions that only a bug can break. Always on.
#define WHERRY_CHECK(condition, ...)                      \
  (static_cast<bool>(condition)                           \
       ? void(0)                                          \
       : ::wherry::impl::check_failed(__FILE__, __LINE__, \
                                      "`" #condition "`: " + ::fmt::format(__VA_ARGS__)))

}  // namespace wherry::impl
