#include "runtime/current_context.h"

#include "runtime/last_failure.h"
#include "runtime/results.h"
#include "runtime/thread_contexts.h"

namespace wherry::impl {
namespace {

CUresult refuse_missing() {
  return fail(CUDA_ERROR_INVALID_CONTEXT,
              "no context is current in this thread; call cuDevicePrimaryCtxRetain and "
              "cuCtxSetCurrent first");
}

}  // namespace

CUresult refuse_status(WorkStatus status) {
  if (status == WorkStatus::ok) return CUDA_SUCCESS;
  const CUresult result = to_result(status);
  if (status == WorkStatus::context_destroyed)
    return fail(result,
                "the thread's current context was destroyed; make another one current with "
                "cuCtxSetCurrent");
  return fail(result,
              "earlier work of the context has failed, and a line in the log says how; "
              "cuDevicePrimaryCtxReset starts the device anew");
}

CUresult find_current(Driver& driver, std::shared_ptr<Context>& context) {
  const CUcontext handle = ThreadContexts::mine().current();
  if (handle == nullptr) return refuse_missing();
  context = driver.find_context(handle);
  return context ? CUDA_SUCCESS : refuse_status(WorkStatus::context_destroyed);
}

int current_device(Driver& driver) {
  std::shared_ptr<Context> context;
  return find_current(driver, context) == CUDA_SUCCESS ? context->device.ordinal : 0;
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
