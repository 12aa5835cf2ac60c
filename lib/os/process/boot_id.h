// The random identifier that Linux generates at each boot.
#pragma once

#include <array>
#include <cstdint>

namespace wherry::impl {

// Returns zeros if it cannot be read.
std::array<std::uint8_t, 16> read_boot_id();

}  // namespace wherry::impl
