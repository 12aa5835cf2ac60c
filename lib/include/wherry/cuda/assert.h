/* The C library's assert(), which in kernels reports the block and the thread and makes the
 * context's error cudaErrorAssert. Like the C library's, it can be included again after a change of
 * NDEBUG. */
#pragma GCC system_header
#include_next <assert.h>

#if defined(__CUDACC__) && !defined(NDEBUG)
#include "detail/threads.h"
#undef assert
#define assert(condition)       \
  (static_cast<bool>(condition) \
       ? void(0)                \
       : ::wherry::kernels::assertion_failed(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
