#include "objects/failures/refusals.h"

#include <cstdint>

#include "machine/policy_source.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/results.h"
#include "streams/stream.h"

namespace wherry::impl {
namespace {

// `source` names the function that returns handles of this kind.
CUresult refuse_object(CUresult code, std::uintptr_t handle, const char* kind, const char* source) {
  if (handle == 0) return fail(code, "the {} is NULL; pass one of {}", kind, source);
  return fail(code, "{:#x} is no {}; pass one of {} that is not destroyed", handle, kind, source);
}

template <typename Handle>
CUresult refuse_object(Handle handle, const char* kind, const char* source) {
  return refuse_object(CUDA_ERROR_INVALID_HANDLE, reinterpret_cast<std::uintptr_t>(handle), kind,
                       source);
}

}  // namespace

CUresult refuse_null(const char* argument) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is NULL; pass a valid pointer", argument);
}

CUresult refuse_zero(const char* argument) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is 0; pass at least 1", argument);
}

CUresult refuse_flags(unsigned long long flags, const char* argument) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is {:#x}; pass 0", argument, flags);
}

CUresult refuse_bits(unsigned long long flags, unsigned long long known, const char* argument) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is {:#x}; pass only bits of {:#x}", argument, flags,
              known);
}

CUresult refuse_value(const char* argument, int value, const char* type) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is {}; pass a value of {}", argument, value, type);
}

CUresult refuse_extent(CUdeviceptr first, std::size_t bytes) {
  if (bytes == 0)
    return fail(CUDA_ERROR_INVALID_VALUE, "the range at {:#x} has 0 bytes; pass at least 1", first);
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the range {:#x}+{} reaches past the last address; check its size", first, bytes);
}

CUresult refuse_inside(CUdeviceptr address, CUdeviceptr base, std::size_t bytes) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "{:#x} lies inside the allocation {:#x}+{}; pass the allocation's start", address,
              base, bytes);
}

CUresult refuse_mapped(CUdeviceptr first, std::size_t bytes) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "memory is mapped in the range {:#x}+{}; unmap it with cuMemUnmap first", first,
              bytes);
}

CUresult refuse_addresses(std::size_t bytes) {
  return fail(CUDA_ERROR_OUT_OF_MEMORY,
              "the devices have no addresses left for {} bytes; raise WHERRY_ARENA", bytes);
}

CUresult refuse_own_data() {
  return fail(CUDA_ERROR_OUT_OF_MEMORY, "the library has no memory for its own data; free some");
}

CUresult refuse_context_flags(unsigned flags) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "flags is {:#x}; pass values of CUctx_flags, and at most one CU_CTX_SCHED_...",
              flags);
}

CUresult refuse_policy(PolicyRefusal refusal, const char* name, unsigned version) {
  switch (refusal) {
    case PolicyRefusal::none:
      return CUDA_SUCCESS;
    case PolicyRefusal::null_argument:
      return fail(CUDA_ERROR_INVALID_VALUE, "name or make is NULL; pass both");
    case PolicyRefusal::bad_name:
      return fail(CUDA_ERROR_INVALID_VALUE, "'{}' is no name; leave out ',' and '/'",
                  std::string_view(name));
    case PolicyRefusal::other_version:
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "the policy is for version {} of the interface, and this is {}; compile it anew",
                  version, wherry::policy_version);
    case PolicyRefusal::name_taken:
      return fail(CUDA_ERROR_INVALID_VALUE, "there is a policy '{}'; choose another name",
                  std::string_view(name));
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult refuse_handle(CUevent handle) {
  return refuse_object(handle, "event", "cuEventCreate");
}
CUresult refuse_handle(CUstream handle) {
  return refuse_object(handle, "stream", "cuStreamCreate");
}
CUresult refuse_handle(CUmodule handle) {
  return refuse_object(handle, "module", "cuModuleLoad");
}
CUresult refuse_handle(CUfunction handle) {
  return refuse_object(handle, "function", "cuModuleGetFunction");
}
CUresult refuse_handle(CUlibrary handle) {
  return refuse_object(handle, "library", "cuLibraryLoadFromFile");
}
CUresult refuse_handle(CUkernel handle) {
  return refuse_object(handle, "kernel", "cuLibraryGetKernel");
}
CUresult refuse_handle(CUgraph handle) {
  return refuse_object(handle, "graph", "cuGraphCreate");
}
CUresult refuse_handle(CUgraphNode handle) {
  return refuse_object(handle, "node of a graph", "cuGraphAdd...Node");
}
CUresult refuse_handle(CUgraphExec handle) {
  return refuse_object(handle, "executable graph", "cuGraphInstantiate");
}
CUresult refuse_handle(CUmemoryPool handle) {
  return refuse_object(CUDA_ERROR_INVALID_VALUE, reinterpret_cast<std::uintptr_t>(handle),
                       "memory pool", "cuMemPoolCreate");
}
CUresult refuse_handle(CUmemGenericAllocationHandle handle) {
  return refuse_object(CUDA_ERROR_INVALID_VALUE, handle, "handle of memory", "cuMemCreate");
}

CUresult refuse_context(CUcontext handle) {
  return refuse_object(CUDA_ERROR_INVALID_CONTEXT, reinterpret_cast<std::uintptr_t>(handle),
                       "context", "cuCtxCreate or cuDevicePrimaryCtxRetain");
}

CUresult refuse_primary(CUcontext handle) {
  return fail(CUDA_ERROR_INVALID_CONTEXT,
              "{:#x} is a device's primary context; give it back with cuDevicePrimaryCtxRelease",
              reinterpret_cast<std::uintptr_t>(handle));
}

CUresult refuse_status(WorkStatus status) {
  if (status == WorkStatus::ok) return CUDA_SUCCESS;
  const CUresult result = to_result(status);
  switch (status) {
    case WorkStatus::context_destroyed:
      return fail(result,
                  "the context was destroyed; use another one, or make it current with "
                  "cuCtxSetCurrent");
    case WorkStatus::unknown_kernel:
      return fail(result,
                  "the device finds no loaded module with the kernel; pass a function of the "
                  "program or of a shared object that is loaded");
    case WorkStatus::other_credentials:
      return fail(result,
                  "the program has changed its user, groups or capabilities, and the device's "
                  "process has the earlier ones; cuDevicePrimaryCtxReset starts a new process");
    case WorkStatus::ok:
    case WorkStatus::illegal_address:
    case WorkStatus::assertion_failed:
    case WorkStatus::launch_failed:
      break;
  }
  return fail(result,
              "earlier work of the context has failed, and a line in the log says how; "
              "cuDevicePrimaryCtxReset starts the device anew");
}

}  // namespace wherry::impl
