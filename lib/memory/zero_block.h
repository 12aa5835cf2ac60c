// Zeros to copy from.
#pragma once

#include <cstddef>
#include <span>

#include "base/page.h"

namespace wherry::impl {

// A block of zeros, never written, so that reads see one page of memory again and again.
std::span<const std::byte, block_size> zero_block();

}  // namespace wherry::impl
