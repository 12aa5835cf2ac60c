// Structs of the interface that contain their own size, so that programs and libraries of different
// versions understand each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace wherry::impl {

// Copies a struct, whose first field is its size, into the caller's version of it. The caller has
// set target->size; fields that only its version has become 0.
template <typename Struct>
void answer(Struct* target, Struct value) {
  const std::size_t size = target->size;
  value.size = size;
  const std::size_t known = std::min(size, sizeof value);
  std::memcpy(target, &value, known);
  std::memset(reinterpret_cast<std::byte*>(target) + known, 0, size - known);
}

}  // namespace wherry::impl
