#include "api/cudart/entry.h"

#include <cstdint>

#include "api/entry.h"
#include "objects/start.h"
#include "objects/thread_contexts.h"

namespace wherry::impl {

RuntimeThread& RuntimeThread::mine() {
  thread_local RuntimeThread thread;
  return thread;
}

CUdeviceptr address_of(const void* pointer) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(pointer));
}

CUmemLocation to_driver(cudaMemLocation location) {
  return {static_cast<CUmemLocationType>(location.type), location.id};
}

CUresult start_library() {
  return Driver::current() != nullptr ? CUDA_SUCCESS : start_driver();
}

CUresult bind_context() {
  const CUresult started = start_library();
  if (started != CUDA_SUCCESS) return started;
  return enter([](Driver& driver) {
    ThreadContexts& contexts = ThreadContexts::mine();
    if (contexts.current() == nullptr) {
      contexts.push(
          driver.retain_primary_for_runtime(*driver.device(RuntimeThread::mine().device)));
    }
    return CUDA_SUCCESS;
  });
}

cudaError_t finish(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  return finish_instead(result, to_runtime_error(result), call);
}

cudaError_t finish_instead(CUresult result, cudaError_t error, const char* call) {
  end_failed_call(call, fail_instead(result, error));
  return RuntimeThread::mine().last_error = error;
}

cudaError_t refuse_kind(cudaMemcpyKind kind, const char* call) {
  const CUresult refused =
      fail(CUDA_ERROR_INVALID_VALUE,
           "kind is {}; pass cudaMemcpyDefault, or the direction in which this function copies",
           static_cast<int>(kind));
  return finish_instead(refused, cudaErrorInvalidMemcpyDirection, call);
}

cudaError_t refuse_array(const char* call) {
  return finish(fail(CUDA_ERROR_NOT_SUPPORTED,
                     "there are no arrays; pass NULL as srcArray and dstArray, and copy memory"),
                call);
}

}  // namespace wherry::impl
