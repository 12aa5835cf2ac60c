// Text that has to fit into a line of a terminal.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace wherry::tool {

// The first `columns` characters of a text in UTF-8; no part of a character.
inline std::string first_columns(std::string_view text, std::size_t columns) {
  return fmt::format("{:.{}}", text, std::min(columns, text.size()));
}

}  // namespace wherry::tool
