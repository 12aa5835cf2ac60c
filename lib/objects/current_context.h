// The context that the calling thread works with (objects/thread_contexts.h). Any thread.
#pragma once

#include <wherry/cuda.h>

#include <memory>

#include "objects/driver.h"

namespace wherry::impl {

// The calling thread's context. CUDA_ERROR_INVALID_CONTEXT: it has none.
// CUDA_ERROR_CONTEXT_IS_DESTROYED: its context was destroyed.
CUresult find_current(Driver& driver, std::shared_ptr<Context>& context);
// The ordinal of that context's device; without a context, of the first device.
int current_device(Driver& driver);
// As find_current(). Also returns the error of a context that has failed.
CUresult find_working(Driver& driver, std::shared_ptr<Context>& context);
// The same for functions that need a working context and do not use it.
CUresult check_working(const Driver& driver);

}  // namespace wherry::impl
