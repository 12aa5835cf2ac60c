// The runtime API's functions of streams.
#include <memory>

#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

// A callback for the driver API that calls a callback of the runtime API.
struct Callback {
  cudaStreamCallback_t function;
  void* data;

  static void call(CUstream stream, CUresult status, void* self) {
    const std::unique_ptr<const Callback> callback(static_cast<const Callback*>(self));
    callback->function(stream, to_runtime_error(status), callback->data);
  }
};

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return with_context([&] { return cuStreamCreate(pStream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return with_context([&] { return cuStreamCreate(pStream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return with_context([&] { return cuStreamCreateWithPriority(pStream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&] { return cuStreamDestroy_v2(stream); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return with_context([&] { return cuCtxGetStreamPriorityRange(leastPriority, greatestPriority); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  return with_context([&] { return cuStreamGetPriority(hStream, priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  return with_context([&] { return cuStreamGetFlags(hStream, flags); });
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  return with_context([&] { return cuStreamGetId(hStream, streamId); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  return with_context([&] { return cuStreamGetDevice(hStream, device); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_context([&] { return cuStreamQuery(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_context([&] { return cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return with_context([&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* userData, unsigned int flags) {
  return with_context([&] {
    if (callback == nullptr) return refuse_null("callback");
    auto owned = std::make_unique<Callback>(Callback{callback, userData});
    const CUresult result = cuStreamAddCallback(stream, Callback::call, owned.get(), flags);
    // From now on the callback's call, which is certain to come, owns the object.
    if (result == CUDA_SUCCESS) static_cast<void>(owned.release());
    return result;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return with_context([&] { return cuLaunchHostFunc(stream, fn, userData); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* devPtr, size_t length,
                                     unsigned int flags) {
  return with_context(
      [&] { return cuStreamAttachMemAsync(stream, address_of(devPtr), length, flags); });
}
