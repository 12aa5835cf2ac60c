// Memory of this process of which nobody knows whether it may be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

// Copies what begins at the address; how many bytes, up to the first page that cannot be read, or 0. -1: this process may
// not ask.
[[nodiscard]] std::ptrdiff_t read_if_readable(std::uintptr_t address, std::span<std::byte> into);

}  // namespace wherry::impl
