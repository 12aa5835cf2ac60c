// How a function of the runtime API begins and ends: it starts the library where nobody has, finds
// the thread a context, and remembers the error. In between it does what its sister in the driver
// API does.
#pragma once

#include <wherry/cuda_runtime_api.h>

namespace wherry::impl {

// What the runtime API keeps of one thread of the application.
struct RuntimeThread {
  // The calling thread's.
  static RuntimeThread& mine();

  int device = 0;  // whose primary context it gets when it needs one; exists once the library runs
  cudaError_t last_error = cudaSuccess;
};

// The same number, for those that have a name in the runtime API.
cudaError_t to_runtime_error(CUresult result);

// The arguments of the driver API that stand for these.
CUdeviceptr address_of(const void* pointer);
CUmemLocation to_driver(cudaMemLocation location);

// Makes sure that the library runs: cuInit's errors.
CUresult start_library();
// ... and that the thread has a current context.
CUresult bind_context();

// Translates, and remembers what is an error.
cudaError_t finish(CUresult result);
// The same for errors that only the runtime API has.
cudaError_t refuse(cudaError_t error);

// Calls body(), which returns a CUresult, with the library running.
template <typename Body>
cudaError_t with_library(const Body& body) {
  const CUresult started = start_library();
  return finish(started == CUDA_SUCCESS ? body() : started);
}
// ... and with a current context.
template <typename Body>
cudaError_t with_context(const Body& body) {
  const CUresult bound = bind_context();
  return finish(bound == CUDA_SUCCESS ? body() : bound);
}

}  // namespace wherry::impl
