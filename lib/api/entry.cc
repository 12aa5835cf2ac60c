#include "api/entry.h"

#include "api/thread_contexts.h"

namespace wherry::impl {

CUresult to_result(WorkStatus status) {
  switch (status) {
    case WorkStatus::ok:
      return CUDA_SUCCESS;
    case WorkStatus::illegal_address:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case WorkStatus::launch_failed:
      return CUDA_ERROR_LAUNCH_FAILED;
    case WorkStatus::context_destroyed:
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    case WorkStatus::unknown_kernel:
      return CUDA_ERROR_NOT_FOUND;
    case WorkStatus::other_credentials:
      return CUDA_ERROR_NOT_PERMITTED;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult waited(WorkStatus status) {
  if (status == WorkStatus::ok) Driver::current()->pools().give_back_excess();
  return to_result(status);
}

CUresult launched(const Driver& driver, const StreamHandle& stream, WorkStatus status) {
  if (status != WorkStatus::ok || !driver.launches_block()) return to_result(status);
  return waited(stream.context->device.engine.wait(stream.stream));
}

CUresult to_result(Runtime::PinResult result) {
  switch (result) {
    case Runtime::PinResult::pinned:
      return CUDA_SUCCESS;
    case Runtime::PinResult::not_managed:
      return CUDA_ERROR_INVALID_VALUE;
    case Runtime::PinResult::no_room:
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_ERROR_UNKNOWN;
}

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

CUresult find_stream(Driver& driver, CUstream argument, StreamHandle& stream) {
  const bool is_default = argument == nullptr || argument == CU_STREAM_LEGACY;
  if (!is_default && argument != CU_STREAM_PER_THREAD) {
    const auto found = driver.find_stream(argument);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    stream = *found;
    return CUDA_SUCCESS;
  }
  const CUresult found = find_current(driver, stream.context);
  if (found != CUDA_SUCCESS) return found;
  stream.stream = is_default ? stream.context->device.engine.default_stream(*stream.context->work)
                             : ThreadContexts::mine().default_stream(stream.context);
  return CUDA_SUCCESS;
}

CUresult find_working_stream(Driver& driver, CUstream argument, StreamHandle& stream) {
  const CUresult found = find_stream(driver, argument, stream);
  if (found != CUDA_SUCCESS) return found;
  return to_result(stream.context->device.engine.status(*stream.context->work));
}

}  // namespace wherry::impl
