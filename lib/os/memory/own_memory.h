// Memory of this process of which nobody knows whether it may be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

// Copies what begins at the address. False: some of it cannot be read, or this process may not ask.
[[nodiscard]] bool read_if_readable(std::uintptr_t address, std::span<std::byte> into);

}  // namespace wherry::impl
