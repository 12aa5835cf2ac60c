#include "runtime/current_context.h"

#include "runtime/results.h"
#include "runtime/thread_contexts.h"

namespace wherry::impl {

CUresult find_current(Driver& driver, std::shared_ptr<Context>& context) {
  const CUcontext handle = ThreadContexts::mine().current();
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context = driver.find_context(handle);
  return context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

int current_device(Driver& driver) {
  std::shared_ptr<Context> context;
  return find_current(driver, context) == CUDA_SUCCESS ? context->device.ordinal : 0;
}

CUresult find_working(Driver& driver, std::shared_ptr<Context>& context) {
  const CUresult found = find_current(driver, context);
  if (found != CUDA_SUCCESS) return found;
  return to_result(context->device.engine.status(*context->work));
}

CUresult check_working(const Driver& driver) {
  const CUcontext handle = ThreadContexts::mine().current();
  return handle == nullptr ? CUDA_ERROR_INVALID_CONTEXT : to_result(driver.context_status(handle));
}

}  // namespace wherry::impl
