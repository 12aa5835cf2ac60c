// The C functions that capture streams into graphs.
#include <utility>

#include "api/entry.h"

using namespace wherry::impl;

namespace {

bool is_mode(CUstreamCaptureMode mode) {
  return mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED;
}

CUresult refuse_mode(CUstreamCaptureMode mode) {
  return refuse_value("mode", static_cast<int>(mode), "CUstreamCaptureMode");
}

CUresult begin(CUstream argument, CUstreamCaptureMode mode,
               const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    StreamHandle stream;
    const CUresult found = find_any_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    const CUresult working =
        refuse_status(stream.context->device.engine.status(*stream.context->work));
    if (working != CUDA_SUCCESS) return working;
    return is_mode(mode) ? driver.captures().begin(stream, mode) : refuse_mode(mode);
  });
}

CUresult end(CUstream argument, CUgraph* graph, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (graph == nullptr) return refuse_null("phGraph");
    *graph = nullptr;
    StreamHandle stream;
    const CUresult found = find_any_stream(driver, argument, stream);
    return found == CUDA_SUCCESS ? driver.captures().end(stream, graph) : found;
  });
}

// Where cuStreamGetCaptureInfo stores its results. All pointers but `status` may be null.
struct Outputs {
  CUstreamCaptureStatus* status;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  std::size_t* count = nullptr;
};

template <typename Value>
void store(Value* to, Value value) {
  if (to != nullptr) *to = value;
}

CUresult tell(CUstream argument, const Outputs& outputs, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (outputs.status == nullptr) return refuse_null("captureStatus");
    StreamHandle stream;
    const CUresult found = find_any_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    if (driver.captures().is_ordered_with_captured(stream))
      return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                  "the legacy default stream waits for a stream that is captured; ask for that "
                  "stream, or create it with CU_STREAM_NON_BLOCKING");
    const Captures::Info info = driver.captures().info(stream);
    *outputs.status = info.status;
    if (info.status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
    store(outputs.id, cuuint64_t{info.id});
    if (info.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return CUDA_SUCCESS;
    store(outputs.graph, info.graph);
    store(outputs.nodes, info.nodes);
    store<const CUgraphEdgeData*>(outputs.edges, nullptr);
    store(outputs.count, info.count);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return begin(hStream, mode);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return end(hStream, phGraph);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return tell(hStream, {captureStatus});
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t* id_out) {
  return tell(hStream, {captureStatus_out, id_out});
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out,
                                   size_t* numDependencies_out) {
  return tell(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, nullptr,
                        numDependencies_out});
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t* id_out, CUgraph* graph_out,
                                   const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edgeData_out,
                                   size_t* numDependencies_out) {
  return tell(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                        numDependencies_out});
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return with_message([&] {
    if (mode == nullptr) return refuse_null("mode");
    if (!is_mode(*mode)) return refuse_mode(*mode);
    std::swap(*mode, capture_mode_of_thread());
    return CUDA_SUCCESS;
  });
}
