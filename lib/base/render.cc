#include "base/render.h"

// A libfmt compiled by g++ contains vformat_to() under a name that clang does not look for. So
// clang compiles it in each file that calls it, which takes seconds; only this file does.
#ifdef __clang__
#include <fmt/format.h>
#endif

#include <algorithm>

namespace wherry::impl {

std::size_t vrender(std::span<char> to, fmt::string_view format, fmt::format_args values) {
  return std::min(fmt::vformat_to_n(to.data(), to.size(), format, values).size, to.size());
}

}  // namespace wherry::impl
