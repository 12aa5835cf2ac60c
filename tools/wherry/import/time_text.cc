#include "import/time_text.h"

#include <algorithm>

#include "text_lines.h"

namespace wherry::importing {

std::optional<std::uint64_t> decimal_ns(std::string_view number, std::uint64_t unit_ns) {
  const std::size_t point = std::min(number.find('.'), number.size());
  const auto whole = tool::to_integer(number.substr(0, point));
  if (!whole || *whole > time_max_ns / unit_ns) return std::nullopt;
  std::uint64_t part_ns = 0, digit_ns = unit_ns;
  for (const char digit : number.substr(std::min(point + 1, number.size()))) {
    if (digit < '0' || digit > '9') return std::nullopt;
    // Multiplies before it divides by 10, because not every unit is a power of ten.
    part_ns += digit_ns * static_cast<std::uint64_t>(digit - '0') / 10;
    digit_ns /= 10;
  }
  const std::uint64_t sum_ns = *whole * unit_ns + part_ns;
  return sum_ns <= time_max_ns ? std::optional(sum_ns) : std::nullopt;
}

}  // namespace wherry::importing
