// The end of a failed call of the API: records which function failed, with which code, for
// wherryGetLastErrorMessage. Any thread.
#pragma once

#include <wherry/cuda_runtime_api.h>

#include "objects/failures/last_failure.h"

namespace wherry::impl {

// Called with the code that the C function returns. Its reason is the one that fail() noted during
// the call for this code. `call` is the name of the C function, or of one of the library's own
// functions, which is not shown. CUDA_ERROR_NOT_READY is no failure.
void end_failed_call(const char* call, CUresult code);
// For functions of the runtime API, which may have called functions of the driver API.
void end_failed_call(const char* call, cudaError_t error);

// For C functions that do not use enter(): returns the result of body().
template <typename Body>
CUresult with_message(const Body& body, const char* call = __builtin_FUNCTION()) {
  begin_call();
  const CUresult result = body();
  if (result != CUDA_SUCCESS) end_failed_call(call, result);
  return result;
}

}  // namespace wherry::impl
