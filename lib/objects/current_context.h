// The context that the calling thread works with (objects/thread_contexts.h). Any thread.
#pragma once

#include <wherry/cuda.h>

#include <memory>

#include "objects/driver.h"

namespace wherry::impl {

// Finds the thread's context. Returns CUDA_ERROR_INVALID_CONTEXT if it has none, and
// CUDA_ERROR_CONTEXT_IS_DESTROYED if that was destroyed.
CUresult find_current(Driver& driver, std::shared_ptr<Context>& context);
// The ordinal of that context's device, or 0 without a context.
int current_device(Driver& driver);
// Like find_current(), but also returns a failed context's error.
CUresult find_working(Driver& driver, std::shared_ptr<Context>& context);
// find_working() for functions that do not use the context.
CUresult check_working(const Driver& driver);

}  // namespace wherry::impl
