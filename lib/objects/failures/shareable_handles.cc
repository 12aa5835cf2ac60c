#include "objects/failures/shareable_handles.h"

#include "objects/failures/last_failure.h"

namespace wherry::impl {

CUresult check_imported_handle_type(CUmemAllocationHandleType type) {
  switch (static_cast<int>(type)) {
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_WIN32:
    case CU_MEM_HANDLE_TYPE_WIN32_KMT:
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return refuse_handle_type(CUDA_ERROR_NOT_SUPPORTED, type);
    default:
      return refuse_handle_type(CUDA_ERROR_INVALID_VALUE, type);
  }
}

CUresult refuse_handle_type(CUresult code, CUmemAllocationHandleType type) {
  return fail(code, "the type of handle is {:#x}; pass CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
              static_cast<unsigned>(type));
}

CUresult refuse_handle_types(CUresult code, const char* field, CUmemAllocationHandleType types) {
  return fail(code,
              "{} is {:#x}; pass CU_MEM_HANDLE_TYPE_NONE or "
              "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
              field, static_cast<unsigned>(types));
}

CUresult refuse_descriptor(int descriptor, const char* source) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the descriptor {} is none of {}; pass the one that the other process has sent, as "
              "(void*)(intptr_t)",
              descriptor, source);
}

}  // namespace wherry::impl
