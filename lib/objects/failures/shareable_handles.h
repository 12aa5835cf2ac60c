// What the types of shareable handles mean to functions that import them.
#pragma once

#include <wherry/cuda.h>

namespace wherry::impl {

// CUDA_ERROR_NOT_SUPPORTED for a type of other systems, CUDA_ERROR_INVALID_VALUE for no type.
CUresult check_imported_handle_type(CUmemAllocationHandleType type);

// Each of these notes the reason of a failure (objects/failures/last_failure.h).
//
// Refuses a type other than that of file descriptors. Returns `code`.
CUresult refuse_handle_type(CUresult code, CUmemAllocationHandleType type);
// Refuses `field`, whose types are not only that of file descriptors. Returns `code`.
CUresult refuse_handle_types(CUresult code, const char* field, CUmemAllocationHandleType types);
// CUDA_ERROR_INVALID_VALUE: the descriptor does not come from the function `source`.
CUresult refuse_descriptor(int descriptor, const char* source);

}  // namespace wherry::impl
