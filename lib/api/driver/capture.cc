// The C functions that ask whether a stream is being captured into a graph: no stream ever is.
#include "api/entry.h"

using namespace wherry::impl;

namespace {

// Sets the status if the stream exists.
CUresult tell_status(CUstream argument, CUstreamCaptureStatus* status) {
  return enter([&](Driver& driver) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StreamHandle stream;
    const CUresult found = find_stream(driver, argument, stream);
    if (found == CUDA_SUCCESS) *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return found;
  });
}

}  // namespace

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return tell_status(hStream, captureStatus);
}
CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return tell_status(per_thread(hStream), captureStatus);
}

// The other outputs are not written, because no stream is captured.
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                cuuint64_t*) {
  return tell_status(hStream, captureStatus_out);
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t*) {
  return tell_status(per_thread(hStream), captureStatus_out);
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*) {
  return tell_status(hStream, captureStatus_out);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t*, CUgraph*, const CUgraphNode**, size_t*) {
  return tell_status(per_thread(hStream), captureStatus_out);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                   cuuint64_t*, CUgraph*, const CUgraphNode**,
                                   const CUgraphEdgeData**, size_t*) {
  return tell_status(hStream, captureStatus_out);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t*, CUgraph*, const CUgraphNode**,
                                        const CUgraphEdgeData**, size_t*) {
  return tell_status(per_thread(hStream), captureStatus_out);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, mine);
  return CUDA_SUCCESS;
}
