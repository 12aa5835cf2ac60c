#include "objects/captures.h"

#include <algorithm>
#include <utility>

#include "objects/failures/last_failure.h"

namespace wherry::impl {

// All fields but the constant ones are guarded by the lock of Captures.
struct Capture {
  const std::uint64_t id;
  const std::shared_ptr<Graph> graph;
  const CUgraph handle;
  const CUstreamCaptureMode mode;
  const std::thread::id thread;  // the thread that began it
  const Stream* const origin;
  bool is_invalid = false;
  bool is_over = false;
};

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

// Whether this capture forbids the calling thread to make unsafe calls (refuse_unsafe()).
bool forbids_unsafe_calls(const Capture& capture) {
  const CUstreamCaptureMode mine = capture_mode_of_thread();
  if (mine == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  const bool is_own = capture.thread == std::this_thread::get_id();
  return is_own ||
         (mine == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// Whether `stream` is the default stream of the context of `other`, and waits for `other`.
bool are_ordered(const StreamHandle& stream, const StreamHandle& other) {
  return stream.stream->kind() == StreamKind::context_default &&
         other.stream->kind() == StreamKind::blocking && other.context == stream.context;
}

void add_missing(std::vector<CUgraphNode>& to, const std::vector<CUgraphNode>& nodes) {
  for (const CUgraphNode node : nodes)
    if (std::ranges::find(to, node) == to.end()) to.push_back(node);
}

// Invalidates the captures of the streams for which conflicts(captured) is true. Returns whether
// there is such a stream.
template <typename Streams, typename Conflicts>
bool invalidate_where(Streams& streams, const Conflicts& conflicts) {
  bool some = false;
  for (auto& [stream, captured] : streams) {
    if (!conflicts(captured)) continue;
    captured.capture->is_invalid = some = true;
  }
  return some;
}

CUresult refuse_default_stream(CUresult code) {
  return fail(code,
              "the legacy default stream cannot be captured; use one of cuStreamCreate, or "
              "CU_STREAM_PER_THREAD");
}

CUresult refuse_invalid() {
  return fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              "an earlier call that cannot be captured has ended the capture; see that call's "
              "result");
}

}  // namespace

CUstreamCaptureMode& capture_mode_of_thread() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

void Captures::count() {
  streams_captured_.store(streams_.size(), std::memory_order_relaxed);
}

void Captures::drop(const Capture& capture) {
  std::erase_if(streams_,
                [&](const auto& entry) { return entry.second.capture.get() == &capture; });
  count();
}

CUresult Captures::begin(const StreamHandle& stream, CUstreamCaptureMode mode) {
  // The legacy default stream waits for other streams, which a graph cannot.
  if (stream.stream->kind() == StreamKind::context_default)
    return refuse_default_stream(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const LockGuard guard(lock_);
  if (streams_.contains(stream.stream.get()))
    return fail(CUDA_ERROR_ILLEGAL_STATE,
                "the stream is captured already; end that capture with cuStreamEndCapture first");
  auto graph = std::make_shared<Graph>();
  const CUgraph handle = graphs_.add(graph);
  const auto capture = std::make_shared<Capture>(Capture{
      next_id(), std::move(graph), handle, mode, std::this_thread::get_id(), stream.stream.get()});
  streams_[stream.stream.get()] = {capture, stream, {}};
  count();
  return CUDA_SUCCESS;
}

CUresult Captures::end(const StreamHandle& stream, CUgraph* graph) {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found == streams_.end())
    return fail(CUDA_ERROR_ILLEGAL_STATE,
                "the stream is not captured; begin with cuStreamBeginCapture");
  const std::shared_ptr<Capture> capture = found->second.capture;
  if (capture->origin != stream.stream.get()) {
    capture->is_invalid = true;
    return fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                "the stream only joined the capture, which is invalid now; end a capture in the "
                "stream of cuStreamBeginCapture");
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                "another thread began the capture; end it in that thread, or begin it with "
                "CU_STREAM_CAPTURE_MODE_RELAXED");
  CUresult result = capture->is_invalid ? refuse_invalid() : CUDA_SUCCESS;
  const std::vector<CUgraphNode>& tips = found->second.tips;
  for (const auto& [other, captured] : streams_)
    if (result == CUDA_SUCCESS && captured.capture == capture &&
        !capture->graph->are_before(captured.tips, tips))
      result = fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                    "another stream joined the capture and has work after the last event that this "
                    "stream waits for; record an event in it and wait for that before the end");
  capture->is_over = true;
  drop(*capture);
  if (result == CUDA_SUCCESS)
    *graph = capture->handle;
  else
    graphs_.destroy(capture->handle);
  return result;
}

Captures::Info Captures::info(const StreamHandle& stream) const {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found == streams_.end()) return {};
  const Captured& captured = found->second;
  const Capture& capture = *captured.capture;
  if (capture.is_invalid) return {.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED, .id = capture.id};
  return {CU_STREAM_CAPTURE_STATUS_ACTIVE, capture.id, capture.handle, captured.tips.data(),
          captured.tips.size()};
}

bool Captures::is_ordered_with_captured(const StreamHandle& stream) const {
  if (!any()) return false;
  const LockGuard guard(lock_);
  return std::ranges::any_of(
      streams_, [&](const auto& entry) { return are_ordered(stream, entry.second.stream); });
}

CUresult Captures::add(const StreamHandle& stream, GraphContent content) {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found == streams_.end() || found->second.capture->is_invalid) return refuse_invalid();
  Captured& captured = found->second;
  const CUgraphNode node =
      graphs_.add_node(captured.capture->graph, std::move(content), captured.tips);
  // The node is null if the program has destroyed nodes of the graph during the capture.
  if (node == nullptr) {
    captured.capture->is_invalid = true;
    return fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "nodes of the graph were destroyed during its capture; destroy them after "
                "cuStreamEndCapture");
  }
  captured.tips = {node};
  return CUDA_SUCCESS;
}

std::shared_ptr<const CapturedMoment> Captures::moment(const StreamHandle& stream) const {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found == streams_.end()) return nullptr;
  return std::make_shared<const CapturedMoment>(
      CapturedMoment{found->second.capture, found->second.tips});
}

CUresult Captures::join(const StreamHandle& stream, const CapturedMoment& moment) {
  const LockGuard guard(lock_);
  Capture& capture = *moment.capture;
  if (capture.is_over)
    return fail(CUDA_ERROR_CAPTURED_EVENT,
                "the event was recorded in a capture that has ended; record it again");
  if (capture.is_invalid) return refuse_invalid();
  if (stream.stream->kind() == StreamKind::context_default) {
    capture.is_invalid = true;
    return refuse_default_stream(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  Captured& captured = streams_[stream.stream.get()];
  if (!captured.capture) {
    captured = {moment.capture, stream, {}};
    count();
  }
  if (captured.capture != moment.capture) {
    capture.is_invalid = captured.capture->is_invalid = true;
    return fail(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                "the stream and the event belong to two captures, both invalid now; wait only for "
                "events of the stream's own capture");
  }
  add_missing(captured.tips, moment.nodes);
  return CUDA_SUCCESS;
}

CUresult Captures::refuse(const StreamHandle& stream) {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  // A captured stream is never the default stream, so at most one of the two conditions holds.
  if (invalidate_where(streams_, [&](const Captured& captured) {
        return captured.stream.stream == stream.stream;
      }))
    return fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the stream is captured, and the call cannot be, so that the capture is invalid "
                "now; make the call before or after the capture");
  if (invalidate_where(
          streams_, [&](const Captured& captured) { return are_ordered(stream, captured.stream); }))
    return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "the legacy default stream waits for a stream that is captured, so that the "
                "capture is invalid now; use another stream, or create the captured one with "
                "CU_STREAM_NON_BLOCKING");
  return CUDA_SUCCESS;
}

CUresult Captures::refuse(const Context& context) {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  if (!invalidate_where(streams_, [&](const Captured& captured) {
        return captured.stream.context.get() == &context;
      }))
    return CUDA_SUCCESS;
  return fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "the call waits for all streams of the context, of which one is captured, so that "
              "the capture is invalid now; make the call before or after the capture");
}

CUresult Captures::refuse_unsafe() {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  if (!invalidate_where(streams_, [](const Captured& captured) {
        return forbids_unsafe_calls(*captured.capture);
      }))
    return CUDA_SUCCESS;
  return fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "the call may wait for other work, which the mode of a capture forbids, so that the "
              "capture is invalid now; make the call before or after the capture, or capture with "
              "CU_STREAM_CAPTURE_MODE_RELAXED");
}

CUresult Captures::refuse(const CapturedMoment& moment) {
  const LockGuard guard(lock_);
  moment.capture->is_invalid = true;
  return fail(CUDA_ERROR_CAPTURED_EVENT,
              "the event was recorded in a capture, which is invalid now; record it outside of "
              "captures before it is queried or waited for");
}

CUresult Captures::refuse_outside(const StreamHandle& stream) {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found != streams_.end()) found->second.capture->is_invalid = true;
  return fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
              "the event was not recorded in the stream's capture, which is invalid now; record it "
              "in the capture, or wait with CU_EVENT_WAIT_EXTERNAL");
}

void Captures::forget(const Stream& stream) {
  if (!any()) return;
  const LockGuard guard(lock_);
  const auto found = streams_.find(&stream);
  if (found == streams_.end()) return;
  const std::shared_ptr<Capture> capture = found->second.capture;
  capture->is_invalid = true;
  if (capture->origin != &stream) {
    streams_.erase(found);
    count();
    return;
  }
  capture->is_over = true;
  drop(*capture);
  graphs_.destroy(capture->handle);
}

void Captures::forget(const Context& context) {
  std::vector<std::shared_ptr<Stream>> its;
  {
    const LockGuard guard(lock_);
    for (const auto& [stream, captured] : streams_)
      if (captured.stream.context.get() == &context) its.push_back(captured.stream.stream);
  }
  for (const auto& stream : its) forget(*stream);
}

}  // namespace wherry::impl
