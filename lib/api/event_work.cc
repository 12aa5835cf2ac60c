#include "api/event_work.h"

#include <utility>

namespace wherry::impl {
namespace {

// For an event that other processes see.
CUresult record_shared(const CudaEvent& event, const StreamHandle& stream) {
  DeviceEngine& engine = event.context->device.engine;
  // Checked before begin(): a moment that is begun and not recorded would be a failure in other
  // processes.
  const CUresult health = to_result(engine.status(*event.context->work));
  if (health != CUDA_SUCCESS) return health;
  const std::shared_ptr<SharedEvent::Pending> moment = event.shared->begin();
  if (!moment) return CUDA_ERROR_OUT_OF_MEMORY;
  // If the operation is dropped, it drops the moment, which then ends with an error.
  return to_result(engine.enqueue_operation(stream.stream, [moment](const Completion& done) {
    moment->finish(WorkStatus::ok);
    done();
  }));
}

// The recording that the event stands for now; null: it was never recorded.
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
    return to_result(status);
  };
}

GraphWork wait_work(std::shared_ptr<const CudaEvent> event) {
  return [event = std::move(event)](Driver&, const StreamHandle& stream) {
    DeviceEngine& engine = stream.context->device.engine;
    const auto recording = recording_of(*event);
    return to_result(recording ? engine.wait_for(stream.stream, recording)
                               : engine.status(*stream.context->work));
  };
}

GraphWork host_work(CUhostFn function, void* data) {
  return [function, data](Driver&, const StreamHandle& stream) {
    return to_result(stream.context->device.engine.launch_host(stream.stream, function, data));
  };
}

}  // namespace wherry::impl
