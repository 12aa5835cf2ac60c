#include "memory/zero_block.h"

#include <array>

namespace wherry::impl {

std::span<const std::byte, block_size> zero_block() {
  // Not const: a constant would be stored in the library's file.
  alignas(page_size) static std::array<std::byte, block_size> zeros;
  return zeros;
}

}  // namespace wherry::impl
