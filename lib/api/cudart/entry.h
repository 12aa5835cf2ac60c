// Common start and end of the functions of the runtime API: they start the library if necessary,
// give the thread a context, and store the error. In between each calls its counterpart in the
// driver API.
#pragma once

#include <wherry/cuda_runtime_api.h>

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

// The error with the same number; cudaErrorUnknown if the runtime API has no such error.
cudaError_t to_runtime_error(CUresult result);

// Translate arguments to the driver API's types.
CUdeviceptr address_of(const void* pointer);
CUmemLocation to_driver(cudaMemLocation location);

// Makes sure that the library runs. Returns cuInit's errors.
CUresult start_library();
// The same, and makes sure that the thread has a current context.
CUresult bind_context();

// Translates the result, and stores it as the last error if it is one.
cudaError_t finish(CUresult result);
// The same for errors that only the runtime API has.
cudaError_t refuse(cudaError_t error);

// Calls body(), which returns a CUresult, after starting the library.
template <typename Body>
cudaError_t with_library(const Body& body) {
  const CUresult started = start_library();
  return finish(started == CUDA_SUCCESS ? body() : started);
}
// The same with a current context.
template <typename Body>
cudaError_t with_context(const Body& body) {
  const CUresult bound = bind_context();
  return finish(bound == CUDA_SUCCESS ? body() : bound);
}

}  // namespace wherry::impl
