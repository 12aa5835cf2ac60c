// Common start and end of the functions of the runtime API: they start the library if necessary,
// give the thread a context, and store the error. In between each calls its counterpart in the
// driver API.
#pragma once

#include <wherry/cuda_runtime_api.h>

#include "api/failed_calls.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"

namespace wherry::impl {

// The runtime API's state of one thread of the application.
struct RuntimeThread {
  // The calling thread's state.
  static RuntimeThread& mine();

  // The device whose primary context the thread gets when it needs one. Valid once the library
  // runs.
  int device = 0;
  cudaError_t last_error = cudaSuccess;
};

// Returns the error with the same number, or cudaErrorUnknown if the runtime API has none.
cudaError_t to_runtime_error(CUresult result);

// Translate arguments to the driver API's types.
CUdeviceptr address_of(const void* pointer);
CUmemLocation to_driver(cudaMemLocation location);

// Makes sure that the library runs. Returns cuInit's errors.
CUresult start_library();
// Starts the library, and makes sure that the thread has a current context.
CUresult bind_context();

// Translates the result, and stores it as the last error if it is one. `call`: see
// end_failed_call().
cudaError_t finish(CUresult result, const char* call = __builtin_FUNCTION());
// Like finish(), but stores `error` in place of the error with the result's number.
cudaError_t finish_instead(CUresult result, cudaError_t error,
                           const char* call = __builtin_FUNCTION());
// Returns cudaErrorInvalidMemcpyDirection, for a kind that is no value of cudaMemcpyKind or that
// the call does not accept.
cudaError_t refuse_kind(cudaMemcpyKind kind, const char* call = __builtin_FUNCTION());
// Returns cudaErrorNotSupported, for parameters of a copy that name an array.
cudaError_t refuse_array(const char* call = __builtin_FUNCTION());

// Calls body(), which returns a CUresult, after starting the library. `call`: see
// end_failed_call().
template <typename Body>
cudaError_t with_library(const char* call, const Body& body) {
  begin_call();
  const CUresult started = start_library();
  return finish(started == CUDA_SUCCESS ? body() : started, call);
}
template <typename Body>
cudaError_t with_library(const Body& body, const char* call = __builtin_FUNCTION()) {
  return with_library(call, body);
}
// Like with_library(), but also gives the thread a current context before it calls body().
template <typename Body>
cudaError_t with_context(const char* call, const Body& body) {
  begin_call();
  const CUresult bound = bind_context();
  return finish(bound == CUDA_SUCCESS ? body() : bound, call);
}
template <typename Body>
cudaError_t with_context(const Body& body, const char* call = __builtin_FUNCTION()) {
  return with_context(call, body);
}

}  // namespace wherry::impl
