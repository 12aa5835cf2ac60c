// Zeros to copy from.
#pragma once

#include <cstddef>
#include <span>

#include "base/page.h"

namespace wherry::impl {

// A block of zeros that is never written: all reads of it reach Linux's zero page.
std::span<const std::byte, block_size> zero_block();

}  // namespace wherry::impl
