#include "api/event_work.h"

#include <utility>

namespace wherry::impl {
namespace {

// Records an event that other processes can use, too.
CUresult record_shared(const CudaEvent& event, const StreamHandle& stream) {
  DeviceEngine& engine = event.context->device.engine;
  // Checked before begin(): a moment that is begun and not recorded would look like a failure to
  // other processes.
  const CUresult health = refuse_status(engine.status(*event.context->work));
  if (health != CUDA_SUCCESS) return health;
  const std::shared_ptr<SharedEvent::Pending> moment = event.shared->begin();
  if (!moment)
    return fail(CUDA_ERROR_OUT_OF_MEMORY,
                "too many recordings of the event are under way; wait for one of them first");
  // If the operation is dropped, it drops the moment, which then ends with an error.
  return refuse_status(engine.enqueue_operation(stream.stream, [moment](const Completion& done) {
    moment->finish(WorkStatus::ok);
    done();
  }));
}

// Returns the recording that the event stands for now, or null if it was never recorded.
std::shared_ptr<Recording> recording_of(const CudaEvent& event) {
  if (!event.shared) return event.last_recording();
  const std::uint64_t moment = event.shared->last();
  if (moment == 0) return nullptr;
  auto recording = std::make_shared<Recording>();
  event.shared->tell(moment, recording);
  return recording;
}

}  // namespace

GraphWork record_work(std::shared_ptr<CudaEvent> event) {
  return [event = std::move(event)](Driver&, const StreamHandle& stream) {
    if (event->shared) return record_shared(*event, stream);
    const auto recording = std::make_shared<Recording>();
    const LockGuard guard(event->lock);
    const WorkStatus status = event->context->device.engine.record(stream.stream, recording);
    if (status == WorkStatus::ok) {
      event->recording = recording;
      event->captured = nullptr;
    }
    return refuse_status(status);
  };
}

GraphWork wait_work(std::shared_ptr<const CudaEvent> event) {
  return [event = std::move(event)](Driver&, const StreamHandle& stream) {
    DeviceEngine& engine = stream.context->device.engine;
    const auto recording = recording_of(*event);
    return refuse_status(recording ? engine.wait_for(stream.stream, recording)
                                   : engine.status(*stream.context->work));
  };
}

GraphWork host_work(CUhostFn function, void* data) {
  return [function, data](Driver&, const StreamHandle& stream) {
    return refuse_status(stream.context->device.engine.launch_host(stream.stream, function, data));
  };
}

CUresult refuse_external(const char* flag) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "flags is {}, which is only for a stream that is captured; pass 0", flag);
}

}  // namespace wherry::impl
