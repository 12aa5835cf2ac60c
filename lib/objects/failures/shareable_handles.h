// What the types of shareable handles mean to the functions that import them.
#pragma once

#include <wherry/cuda.h>

namespace wherry::impl {

// CUDA_ERROR_NOT_SUPPORTED: a type of other systems; CUDA_ERROR_INVALID_VALUE: not one.
CUresult check_imported_handle_type(CUmemAllocationHandleType type);

// Each of these notes the reason of a failure (objects/failures/last_failure.h).
//
// The type is not that of file descriptors. Returns `code`.
CUresult refuse_handle_type(CUresult code, CUmemAllocationHandleType type);
// The field of this name has other types than that of file descriptors. Returns `code`.
CUresult refuse_handle_types(CUresult code, const char* field, CUmemAllocationHandleType types);
// CUDA_ERROR_INVALID_VALUE: the descriptor is not one that the function `source` returned.
CUresult refuse_descriptor(int descriptor, const char* source);

}  // namespace wherry::impl
