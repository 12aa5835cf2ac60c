#include "base/check.h"

#include <cstdlib>

#include "base/log.h"

namespace wherry::impl {

void check_failed(const char* file, int line, std::string_view what) {
  log_line("internal error at {}:{}: {}", file, line, what);
  std::abort();
}

}  // namespace wherry::impl
