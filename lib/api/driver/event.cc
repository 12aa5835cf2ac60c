// The C functions of events.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "api/entry.h"
#include "api/event_work.h"
#include "objects/failures/results.h"

using namespace wherry::impl;

namespace {

CUresult destroy(CUevent handle, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    return driver.destroy_event(handle) ? CUDA_SUCCESS : refuse_handle(handle);
  });
}

// Makes the event stand for the nodes that the stream's next node would depend on. Recording it and
// waiting for it add no node.
CUresult record_captured(Driver& driver, CudaEvent& event, const StreamHandle& stream) {
  auto moment = driver.captures().moment(stream);
  if (!moment)
    return fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "another thread ended the capture during the call; record the event before");
  // Other processes cannot see a moment of a capture.
  if (event.shared) return driver.captures().refuse(stream);
  const LockGuard guard(event.lock);
  event.captured = std::move(moment);
  return CUDA_SUCCESS;
}

CUresult record(CUevent handle, CUstream argument, unsigned flags,
                const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (flags != CU_EVENT_RECORD_DEFAULT && flags != CU_EVENT_RECORD_EXTERNAL)
      return refuse_bits(flags, CU_EVENT_RECORD_EXTERNAL);
    WorkStream stream;
    const CUresult found = find_work_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    const auto event = driver.find_event(handle);
    if (!event) return refuse_handle(handle);
    if (event->context != stream.context)
      return fail(CUDA_ERROR_INVALID_HANDLE,
                  "the event is of another context than the stream; create one in the stream's "
                  "context");
    const bool is_external = flags == CU_EVENT_RECORD_EXTERNAL;
    if (is_external && !stream.is_captured) return refuse_external("CU_EVENT_RECORD_EXTERNAL");
    if (stream.is_captured && !is_external) return record_captured(driver, *event, stream);
    return give(driver, stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record_work(event));
  });
}

// Calls body(event, recording) for a recorded event, or shared_body(event, moment) if other
// processes see the event. An event that was never recorded counts as finished.
template <typename Body, typename SharedBody>
CUresult enter_event(CUevent handle, const Body& body, const SharedBody& shared_body,
                     const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto event = driver.find_event(handle);
    if (!event) return refuse_handle(handle);
    if (const auto moment = event->last_captured()) return driver.captures().refuse(*moment);
    const CUresult safe = driver.captures().refuse_unsafe();
    if (safe != CUDA_SUCCESS) return safe;
    const Context& context = *event->context;
    const CUresult health = refuse_status(context.device.engine.status(*context.work));
    if (health != CUDA_SUCCESS) return health;
    if (event->shared) {
      const std::uint64_t moment = event->shared->last();
      return moment != 0 ? shared_body(*event->shared, moment) : CUDA_SUCCESS;
    }
    const auto recording = event->last_recording();
    return recording ? body(*event, *recording) : CUDA_SUCCESS;
  });
}

// Returns the result for the status of the work (of this program or another one) that a shared
// event stands for.
CUresult refuse_shared(WorkStatus status) {
  if (status == WorkStatus::ok) return CUDA_SUCCESS;
  return fail(to_result(status),
              "the work that the shared event stands for has failed; the log of the program that "
              "recorded the event says how");
}

CUresult refuse_of_event(CUevent event, const char* why) {
  return fail(CUDA_ERROR_INVALID_HANDLE, "the event {:#x} {}",
              reinterpret_cast<std::uintptr_t>(event), why);
}

CUresult elapsed_time(float* milliseconds, CUevent start, CUevent end,
                      const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (milliseconds == nullptr) return refuse_null("pMilliseconds");
    const CUevent handles[] = {start, end};
    std::shared_ptr<CudaEvent> events[2];
    for (int i = 0; i < 2; ++i) {
      const auto& event = events[i] = driver.find_event(handles[i]);
      if (!event) return refuse_handle(handles[i]);
      if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
        return refuse_of_event(handles[i],
                               "measures no time; create it without CU_EVENT_DISABLE_TIMING");
      if (const auto moment = event->last_captured()) return driver.captures().refuse(*moment);
      if (!event->last_recording())
        return refuse_of_event(handles[i], "was never recorded; record it with cuEventRecord");
    }
    // NVIDIA's driver refuses events of two devices, so they are refused, although one clock serves
    // all devices.
    if (&events[0]->context->device != &events[1]->context->device)
      return refuse_of_event(end,
                             "is of another device than hStart; pass two events of one device");
    std::chrono::steady_clock::time_point times[2];
    for (int i = 0; i < 2; ++i) {
      const auto outcome = events[i]->context->device.engine.query(*events[i]->last_recording());
      if (!outcome) return CUDA_ERROR_NOT_READY;
      if (outcome->status != WorkStatus::ok) return refuse_status(outcome->status);
      times[i] = outcome->time;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuEventCreate(CUevent* phEvent, unsigned flags) {
  return enter([&](Driver& driver) {
    constexpr unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
    const bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (phEvent == nullptr) return refuse_null("phEvent");
    if ((flags & ~known) != 0) return refuse_bits(flags, known, "Flags");
    if (shared && timed)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "Flags is {:#x}: an event for other processes measures no time; add "
                  "CU_EVENT_DISABLE_TIMING",
                  flags);
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *phEvent =
        driver.create_event(context, flags, shared ? std::make_shared<SharedEvent>() : nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
  return record(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return record(hEvent, hStream, flags);
}

CUresult cuEventQuery(CUevent hEvent) {
  return enter_event(
      hEvent,
      [](const CudaEvent& event, const Recording& recording) {
        const auto outcome = event.context->device.engine.query(recording);
        return outcome ? refuse_status(outcome->status) : CUDA_ERROR_NOT_READY;
      },
      [](const SharedEvent& event, std::uint64_t moment) {
        const auto end = event.query(moment);
        return end ? refuse_shared(*end) : CUDA_ERROR_NOT_READY;
      });
}

CUresult cuEventSynchronize(CUevent hEvent) {
  return enter_event(
      hEvent,
      [](const CudaEvent& event, const Recording& recording) {
        const Context& context = *event.context;
        const bool sleeps = (event.flags & CU_EVENT_BLOCKING_SYNC) != 0;
        return waited(
            context.device.engine.wait(recording, sleeps ? 0 : context.work->wait_spin_ns()));
      },
      [](const SharedEvent& event, std::uint64_t moment) {
        const WorkStatus status = event.wait(moment);
        return status == WorkStatus::ok ? waited(status) : refuse_shared(status);
      });
}

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed_time(pMilliseconds, hStart, hEnd);
}
CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed_time(pMilliseconds, hStart, hEnd);
}

CUresult cuEventDestroy(CUevent hEvent) {
  return destroy(hEvent);
}
CUresult cuEventDestroy_v2(CUevent hEvent) {
  return destroy(hEvent);
}
