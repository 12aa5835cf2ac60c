// The runtime API's functions that capture streams into graphs.
#include "api/cudart/entry.h"
#include "api/entry.h"

using namespace wherry::impl;

namespace {

struct CaptureInfo {
  cudaStreamCaptureStatus* status;
  unsigned long long* id;
  cudaGraph_t* graph;
  const cudaGraphNode_t** dependencies;
  const cudaGraphEdgeData** edges;
  std::size_t* count;
};

cudaError_t get_capture_info(CUstream stream, const CaptureInfo& info,
                             const char* call = __builtin_FUNCTION()) {
  static_assert(sizeof(cuuint64_t) == sizeof(unsigned long long));
  return with_context(call, [&] {
    return cuStreamGetCaptureInfo_v3(
        stream, reinterpret_cast<CUstreamCaptureStatus*>(info.status),
        reinterpret_cast<cuuint64_t*>(info.id), info.graph, info.dependencies,
        reinterpret_cast<const CUgraphEdgeData**>(info.edges), info.count);
  });
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return with_context(
      [&] { return cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return with_context([&] { return cuStreamEndCapture(stream, pGraph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  return with_context([&] {
    return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus));
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* captureStatus_out,
                                     unsigned long long* id_out, cudaGraph_t* graph_out,
                                     const cudaGraphNode_t** dependencies_out,
                                     const cudaGraphEdgeData** edgeData_out,
                                     size_t* numDependencies_out) {
  return get_capture_info(stream, {captureStatus_out, id_out, graph_out, dependencies_out,
                                   edgeData_out, numDependencies_out});
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return with_library([&] {
    return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}
