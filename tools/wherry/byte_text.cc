#include "byte_text.h"

#include <fmt/core.h>

#include <cstddef>
#include <iterator>

namespace wherry::tool {

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : 1, units[unit]);
}

}  // namespace wherry::tool
