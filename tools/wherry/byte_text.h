// Sizes as text.
#pragma once

#include <cstdint>
#include <string>

namespace wherry::tool {

inline constexpr double mebibyte = 1 << 20;
inline constexpr double page_mebibytes = 4096 / mebibyte;

// "512 B", "1.5 MiB", "128 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace wherry::tool
