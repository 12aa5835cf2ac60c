#include "api/entry.h"

#include "objects/thread_contexts.h"

namespace wherry::impl {

CUresult waited(WorkStatus status) {
  if (status == WorkStatus::ok) Driver::current()->pools().give_back_excess();
  return refuse_status(status);
}

CUresult launched(const Driver& driver, const StreamHandle& stream, WorkStatus status) {
  if (status != WorkStatus::ok || !driver.launches_block()) return refuse_status(status);
  return waited(stream.context->device.engine.wait(stream.stream));
}

CUresult find_any_stream(Driver& driver, CUstream argument, StreamHandle& stream) {
  const bool is_default = argument == nullptr || argument == CU_STREAM_LEGACY;
  if (!is_default && argument != CU_STREAM_PER_THREAD) {
    const auto found = driver.find_stream(argument);
    if (!found) return refuse_handle(argument);
    stream = *found;
    return CUDA_SUCCESS;
  }
  const CUresult found = find_current(driver, stream.context);
  if (found != CUDA_SUCCESS) return found;
  stream.stream = is_default ? stream.context->device.engine.default_stream(*stream.context->work)
                             : ThreadContexts::mine().default_stream(stream.context);
  return CUDA_SUCCESS;
}

CUresult find_stream(Driver& driver, CUstream argument, StreamHandle& stream) {
  const CUresult found = find_any_stream(driver, argument, stream);
  return found == CUDA_SUCCESS ? driver.captures().refuse(stream) : found;
}

CUresult find_work_stream(Driver& driver, CUstream argument, WorkStream& stream) {
  const CUresult found = find_any_stream(driver, argument, stream);
  if (found != CUDA_SUCCESS || !driver.captures().any()) return found;
  stream.is_captured = driver.captures().info(stream).status != CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.is_captured
             ? refuse_status(stream.context->device.engine.status(*stream.context->work))
             : driver.captures().refuse(stream);
}

CUresult find_working_stream(Driver& driver, CUstream argument, StreamHandle& stream) {
  const CUresult found = find_stream(driver, argument, stream);
  if (found != CUDA_SUCCESS) return found;
  return refuse_status(stream.context->device.engine.status(*stream.context->work));
}

}  // namespace wherry::impl
