// The name and a short description of each error code. Constant data; any thread may use it.
#pragma once

#include <wherry/cuda.h>

namespace wherry::impl {

struct ErrorText {
  const char* name;         // "CUDA_ERROR_INVALID_VALUE"
  const char* description;  // "invalid argument"
};

// Returns null if the number is not an error code.
const ErrorText* find_error_text(CUresult code);

}  // namespace wherry::impl
