// Sizes for people.
#pragma once

#include <cstdint>
#include <string>

namespace wherry::tool {

// "512 B", "1.5 MiB", "128 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace wherry::tool
