// A copy of whole pages of the program's, with what lies between its objects there: sanitizers take
// every access to that for a mistake, and know memcpy.
#pragma once

#include <cstddef>

namespace wherry::impl {

inline void copy_raw(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

}  // namespace wherry::impl
