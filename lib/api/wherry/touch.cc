#include "memory/touch.h"

#include <cstdint>

#include "api/exports.h"
#include "api/failed_calls.h"
#include "objects/failures/refusals.h"

using namespace wherry::impl;

CUresult wherryTouchPages(const void* ptr, size_t bytes, unsigned flags) {
  constexpr unsigned known = WHERRY_TOUCH_READ | WHERRY_TOUCH_WRITE;
  return with_message([&] {
    const TouchableMemory* const memory = TouchableMemory::current();
    if (memory == nullptr)
      return fail(CUDA_ERROR_NOT_INITIALIZED,
                  "cuInit has not succeeded in this process; call cuInit(0) first");
    const auto start = reinterpret_cast<std::uintptr_t>(ptr);
    if (ptr == nullptr) return refuse_null("ptr");
    if (start + bytes <= start) return refuse_extent(start, bytes);
    if (flags == 0 || (flags & ~known) != 0)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "flags is {:#x}; pass WHERRY_TOUCH_READ or WHERRY_TOUCH_WRITE", flags);
    if (!memory->overlaps(start, bytes)) return CUDA_SUCCESS;
    if (!memory->is_of_one_allocation(start, bytes))
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the range {:#x}+{} is not inside one live allocation (was it freed?)", start,
                  bytes);
    touch(start, bytes, (flags & WHERRY_TOUCH_WRITE) != 0 ? Access::write : Access::read);
    return CUDA_SUCCESS;
  });
}
// wherryTouch is the earlier name of wherryTouchPages.
CUresult wherryTouch(const void* ptr, size_t bytes, unsigned flags) {
  return wherryTouchPages(ptr, bytes, flags);
}
