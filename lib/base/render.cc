#include "base/render.h"

// The libfmt that g++ compiled contains vformat_to(), but under a name by which only g++ looks for
// it: clang compiles its own, which takes seconds. So the library calls it here only.
#ifdef __clang__
#include <fmt/format.h>
#endif

#include <algorithm>

namespace wherry::impl {

std::size_t vrender(std::span<char> to, fmt::string_view format, fmt::format_args values) {
  return std::min(fmt::vformat_to_n(to.data(), to.size(), format, values).size, to.size());
}

}  // namespace wherry::impl
