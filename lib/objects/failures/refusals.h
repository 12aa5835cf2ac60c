// Reasons for failures that many calls have in common, whatever they work on. Each function notes
// the reason (objects/failures/last_failure.h) and returns the code. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>

namespace wherry::impl {

enum class PolicyRefusal;
enum class WorkStatus;

// CUDA_ERROR_INVALID_VALUE: the pointer argument with this name is NULL.
CUresult refuse_null(const char* argument);
// CUDA_ERROR_INVALID_VALUE: the size argument with this name is 0.
CUresult refuse_zero(const char* argument);
// CUDA_ERROR_INVALID_VALUE: the flags, which must be 0, are not.
CUresult refuse_flags(unsigned long long flags, const char* argument = "flags");
// CUDA_ERROR_INVALID_VALUE: the flags have bits that are not in `known`.
CUresult refuse_bits(unsigned long long flags, unsigned long long known,
                     const char* argument = "flags");
// CUDA_ERROR_INVALID_VALUE: the argument of this name is not a value of the enumeration `type`.
CUresult refuse_value(const char* argument, int value, const char* type);
// CUDA_ERROR_INVALID_VALUE: the range is empty, or reaches past the last address.
CUresult refuse_extent(CUdeviceptr first, std::size_t bytes);
// CUDA_ERROR_INVALID_VALUE: the address must be the start of an allocation, but is inside that of
// `bytes` bytes from `base` on.
CUresult refuse_inside(CUdeviceptr address, CUdeviceptr base, std::size_t bytes);
// CUDA_ERROR_INVALID_VALUE: memory is mapped in the range (cuMemMap).
CUresult refuse_mapped(CUdeviceptr first, std::size_t bytes);
// CUDA_ERROR_OUT_OF_MEMORY: no range of so many bytes is free in the devices' address space.
CUresult refuse_addresses(std::size_t bytes);

// CUDA_ERROR_OUT_OF_MEMORY: the library has no memory for its own data.
CUresult refuse_own_data();
// CUDA_ERROR_INVALID_VALUE: the flags are not valid for a context.
CUresult refuse_context_flags(unsigned flags);

// Returns CUDA_SUCCESS if the policy was registered. Otherwise CUDA_ERROR_INVALID_VALUE, or
// CUDA_ERROR_NOT_SUPPORTED for a policy of another version of the interface.
CUresult refuse_policy(PolicyRefusal refusal, const char* name, unsigned version);

// For handles of no existing object. Returns CUDA_ERROR_INVALID_VALUE for memory and pools,
// otherwise CUDA_ERROR_INVALID_HANDLE.
CUresult refuse_handle(CUevent handle);
CUresult refuse_handle(CUstream handle);
CUresult refuse_handle(CUmodule handle);
CUresult refuse_handle(CUfunction handle);
CUresult refuse_handle(CUlibrary handle);
CUresult refuse_handle(CUkernel handle);
CUresult refuse_handle(CUgraph handle);
CUresult refuse_handle(CUgraphNode handle);
CUresult refuse_handle(CUgraphExec handle);
CUresult refuse_handle(CUmemoryPool handle);
CUresult refuse_handle(CUmemGenericAllocationHandle handle);

// CUDA_ERROR_INVALID_CONTEXT: there is no such context.
CUresult refuse_context(CUcontext handle);
// CUDA_ERROR_INVALID_CONTEXT: the call does not destroy this context, a device's primary one.
CUresult refuse_primary(CUcontext handle);
// Returns the result for a context's status, and notes the reason for the thread's failed call.
// Returns CUDA_SUCCESS if the context works.
CUresult refuse_status(WorkStatus status);

}  // namespace wherry::impl
