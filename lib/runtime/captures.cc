#include "runtime/captures.h"

#include <algorithm>
#include <utility>

namespace wherry::impl {

// All fields but the constant ones are guarded by the lock of Captures.
struct Capture {
  const std::uint64_t id;
  const std::shared_ptr<Graph> graph;
  const CUgraph handle;
  const CUstreamCaptureMode mode;
  const std::thread::id thread;  // that began it
  const Stream* const origin;
  bool is_invalid = false;
  bool is_over = false;
};

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

// Whether the calling thread may make no unsafe calls, because of this capture.
bool forbids_unsafe_calls(const Capture& capture) {
  const CUstreamCaptureMode mine = capture_mode_of_thread();
  if (mine == CU_STREAM_CAPTURE_MODE_RELAXED || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  const bool is_own = capture.thread == std::this_thread::get_id();
  return is_own ||
         (mine == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// Whether `stream` is the default stream of the other one's context, and waits for it.
bool are_ordered(const StreamHandle& stream, const StreamHandle& other) {
  return stream.stream->kind() == StreamKind::context_default &&
         other.stream->kind() == StreamKind::blocking && other.context == stream.context;
}

void add_missing(std::vector<CUgraphNode>& to, const std::vector<CUgraphNode>& nodes) {
  for (const CUgraphNode node : nodes)
    if (std::ranges::find(to, node) == to.end()) to.push_back(node);
}

// Invalidates the captures of the streams for which conflicts(captured) is true. Returns the call's
// error, or CUDA_SUCCESS if there is none.
template <typename Streams, typename Conflicts>
CUresult refuse_where(Streams& streams, const Conflicts& conflicts) {
  CUresult result = CUDA_SUCCESS;
  for (auto& [stream, captured] : streams) {
    if (!conflicts(captured)) continue;
    captured.capture->is_invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
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
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const LockGuard guard(lock_);
  if (streams_.contains(stream.stream.get())) return CUDA_ERROR_ILLEGAL_STATE;
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
  if (found == streams_.end()) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = found->second.capture;
  if (capture->origin != stream.stream.get()) {
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = capture->is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  const std::vector<CUgraphNode>& tips = found->second.tips;
  for (const auto& [other, captured] : streams_)
    if (result == CUDA_SUCCESS && captured.capture == capture &&
        !capture->graph->are_before(captured.tips, tips))
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
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
  if (found == streams_.end() || found->second.capture->is_invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Captured& captured = found->second;
  const CUgraphNode node =
      graphs_.add_node(captured.capture->graph, std::move(content), captured.tips);
  // The program has taken nodes out of the graph meanwhile.
  if (node == nullptr) {
    captured.capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
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
  if (capture.is_over) return CUDA_ERROR_CAPTURED_EVENT;
  if (capture.is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.stream->kind() == StreamKind::context_default) {
    capture.is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  Captured& captured = streams_[stream.stream.get()];
  if (!captured.capture) {
    captured = {moment.capture, stream, {}};
    count();
  }
  if (captured.capture != moment.capture) {
    capture.is_invalid = captured.capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  add_missing(captured.tips, moment.nodes);
  return CUDA_SUCCESS;
}

CUresult Captures::refuse(const StreamHandle& stream) {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  CUresult result = CUDA_SUCCESS;
  for (auto& [other, captured] : streams_) {
    const bool is_it = other == stream.stream.get();
    if (!is_it && !are_ordered(stream, captured.stream)) continue;
    captured.capture->is_invalid = true;
    result = is_it ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult Captures::refuse(const Context& context) {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  return refuse_where(streams_, [&](const Captured& captured) {
    return captured.stream.context.get() == &context;
  });
}

CUresult Captures::refuse_unsafe() {
  if (!any()) return CUDA_SUCCESS;
  const LockGuard guard(lock_);
  return refuse_where(
      streams_, [](const Captured& captured) { return forbids_unsafe_calls(*captured.capture); });
}

CUresult Captures::refuse(const CapturedMoment& moment) {
  const LockGuard guard(lock_);
  moment.capture->is_invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult Captures::refuse_outside(const StreamHandle& stream) {
  const LockGuard guard(lock_);
  const auto found = streams_.find(stream.stream.get());
  if (found != streams_.end()) found->second.capture->is_invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
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
