#include "base/check.h"

#include <array>
#include <cstdlib>

#include "base/log.h"
#include "base/render.h"

namespace wherry::impl {
namespace {

// The line may wait so long for space in stderr, because the process aborts after it.
constexpr int patience_ms = 1000;

}  // namespace

void vcheck_failed(const char* file, int line, const char* condition, fmt::string_view format,
                   fmt::format_args values) {
  std::array<char, log_line_max> what;
  const fmt::string_view text(what.data(), vrender(what, format, values));
  if (condition != nullptr)
    vlog_line(LogLevel::error, "internal error at {}:{}: `{}`: {}",
              fmt::make_format_args(file, line, condition, text), patience_ms);
  else
    vlog_line(LogLevel::error, "internal error at {}:{}: {}",
              fmt::make_format_args(file, line, text), patience_ms);
  std::abort();
}

}  // namespace wherry::impl
