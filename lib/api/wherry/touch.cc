#include "memory/touch.h"

#include <cstdint>

#include "api/exports.h"

using namespace wherry::impl;

CUresult wherryTouchPages(const void* ptr, size_t bytes, unsigned flags) {
  constexpr unsigned known = WHERRY_TOUCH_READ | WHERRY_TOUCH_WRITE;
  const TouchableMemory* const memory = TouchableMemory::current();
  if (memory == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto start = reinterpret_cast<std::uintptr_t>(ptr);
  if (ptr == nullptr || start + bytes <= start || flags == 0 || (flags & ~known) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!memory->overlaps(start, bytes)) return CUDA_SUCCESS;
  if (!memory->is_of_one_allocation(start, bytes)) return CUDA_ERROR_INVALID_VALUE;
  touch(start, bytes, (flags & WHERRY_TOUCH_WRITE) != 0 ? Access::write : Access::read);
  return CUDA_SUCCESS;
}
// The earlier name.
CUresult wherryTouch(const void* ptr, size_t bytes, unsigned flags) {
  return wherryTouchPages(ptr, bytes, flags);
}
