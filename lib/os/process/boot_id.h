// The random number that the kernel drew when this machine started.
#pragma once

#include <array>
#include <cstdint>

namespace wherry::impl {

// All zero where the kernel does not tell.
std::array<std::uint8_t, 16> read_boot_id();

}  // namespace wherry::impl
