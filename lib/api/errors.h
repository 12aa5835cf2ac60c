// What each error code is called, and a few words about it. Constant data; any thread.
#pragma once

#include <wherry/cuda.h>

namespace wherry::impl {

struct ErrorText {
  const char* name;         // "CUDA_ERROR_INVALID_VALUE"
  const char* description;  // "invalid argument"
};

// Null for a number that is no code.
const ErrorText* find_error_text(CUresult code);

}  // namespace wherry::impl
