#include "objects/current_context.h"

#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"
#include "objects/thread_contexts.h"

namespace wherry::impl {
namespace {

CUresult refuse_missing() {
  return fail(CUDA_ERROR_INVALID_CONTEXT,
              "no context is current in this thread; call cuDevicePrimaryCtxRetain and "
              "cuCtxSetCurrent first");
}

}  // namespace

CUresult find_current(Driver& driver, std::shared_ptr<Context>& context) {
  const CUcontext handle = ThreadContexts::mine().current();
  if (handle == nullptr) return refuse_missing();
  context = driver.find_context(handle);
  return context ? CUDA_SUCCESS : refuse_status(WorkStatus::context_destroyed);
}

int current_device(Driver& driver) {
  const auto context = driver.find_context(ThreadContexts::mine().current());
  return context ? context->device.ordinal : 0;
}

CUresult find_working(Driver& driver, std::shared_ptr<Context>& context) {
  const CUresult found = find_current(driver, context);
  if (found != CUDA_SUCCESS) return found;
  return refuse_status(context->device.engine.status(*context->work));
}

CUresult check_working(const Driver& driver) {
  const CUcontext handle = ThreadContexts::mine().current();
  return handle == nullptr ? refuse_missing() : refuse_status(driver.context_status(handle));
}

}  // namespace wherry::impl
