// What the types of shareable handles mean to the functions that import them.
#pragma once

#include <wherry/cuda.h>

namespace wherry::impl {

// CUDA_ERROR_NOT_SUPPORTED: a type of other systems; CUDA_ERROR_INVALID_VALUE: not one.
CUresult check_imported_handle_type(CUmemAllocationHandleType type);
// The type is not that of file descriptors. Returns `code`, and notes the reason.
CUresult refuse_handle_type(CUresult code, CUmemAllocationHandleType type);

}  // namespace wherry::impl
