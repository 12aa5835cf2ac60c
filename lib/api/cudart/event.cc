// The runtime API's functions of events.
#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return with_context([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return with_context([&] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with_context([&] { return cuEventRecord(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return with_context([&] { return cuEventRecordWithFlags(event, stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_context([&] { return cuEventElapsedTime_v2(ms, start, end); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&] { return cuEventDestroy_v2(event); });
}
