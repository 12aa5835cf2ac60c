// Reads memory of this process that may not be readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

// Copies the bytes at the address. Returns false if some of them cannot be read, or if this process
// may not make the call.
[[nodiscard]] bool read_if_readable(std::uintptr_t address, std::span<std::byte> into);

}  // namespace wherry::impl
