// Copies whole pages of the program's memory, including the gaps between its objects. Sanitizers
// report accesses to such gaps, and they intercept memcpy().
#pragma once

#include <cstddef>

namespace wherry::impl {

inline void copy_raw(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

}  // namespace wherry::impl
