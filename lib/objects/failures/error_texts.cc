#include "objects/failures/error_texts.h"

#include <algorithm>
#include <array>

namespace wherry::impl {

namespace {

struct ErrorRow {
  CUresult code;
  ErrorText text;
};

#define WHERRY_ERROR(code, description) \
  ErrorRow {                            \
    code, {                             \
#code, description                \
    }                                   \
  }

// Sorted by code, ascending.
constexpr std::array errors{
    WHERRY_ERROR(CUDA_SUCCESS, "no error"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    WHERRY_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    WHERRY_ERROR(
        CUDA_ERROR_NOT_INITIALIZED,
        "the library is not initialized: cuInit was not called, or this is a forked child"),
    WHERRY_ERROR(CUDA_ERROR_DEINITIALIZED, "the library is shutting down"),
    WHERRY_ERROR(CUDA_ERROR_PROFILER_DISABLED, "the profiler is disabled"),
    WHERRY_ERROR(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialized"),
    WHERRY_ERROR(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler runs already"),
    WHERRY_ERROR(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler does not run"),
    WHERRY_ERROR(CUDA_ERROR_STUB_LIBRARY, "a stub library was loaded in place of the real one"),
    WHERRY_ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
                 "the call needs a newer version of the library"),
    WHERRY_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device cannot be had at this moment"),
    WHERRY_ERROR(CUDA_ERROR_NO_DEVICE, "there is no device"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    WHERRY_ERROR(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device has no licence"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_IMAGE, "invalid kernel image"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid context, or no current one"),
    WHERRY_ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already"),
    WHERRY_ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    WHERRY_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
    WHERRY_ERROR(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped"),
    WHERRY_ERROR(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already"),
    WHERRY_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device"),
    WHERRY_ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is acquired already"),
    WHERRY_ERROR(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped"),
    WHERRY_ERROR(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array"),
    WHERRY_ERROR(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as a pointer"),
    WHERRY_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable memory error"),
    WHERRY_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device has no such limit"),
    WHERRY_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is in use by another thread"),
    WHERRY_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot access each other"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_PTX, "the PTX code is invalid"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
    WHERRY_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable link error"),
    WHERRY_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "the JIT compiler was not found"),
    WHERRY_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                 "the PTX code is of a version that is not known"),
    WHERRY_ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED, "JIT compilation is disabled"),
    WHERRY_ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the device has no such execution affinity"),
    WHERRY_ERROR(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
                 "the code waits on the device in a way that is not supported"),
    WHERRY_ERROR(CUDA_ERROR_CONTAINED,
                 "the device stopped this program because of an error that it contained"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_SOURCE, "invalid kernel source"),
    WHERRY_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    WHERRY_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
                 "a symbol of a shared object was not found"),
    WHERRY_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object could not be initialized"),
    WHERRY_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused something"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid handle"),
    WHERRY_ERROR(CUDA_ERROR_ILLEGAL_STATE, "not possible in this state"),
    WHERRY_ERROR(CUDA_ERROR_LOSSY_QUERY, "the answer would not be complete"),
    WHERRY_ERROR(CUDA_ERROR_NOT_FOUND, "not found"),
    WHERRY_ERROR(CUDA_ERROR_NOT_READY, "not finished yet"),
    WHERRY_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS,
                 "a kernel touched an address that its device cannot see"),
    WHERRY_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                 "the launch asks for more than the device has"),
    WHERRY_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran for too long"),
    WHERRY_ERROR(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
                 "the launch uses an incompatible texturing mode"),
    WHERRY_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    WHERRY_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
    WHERRY_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use"),
    WHERRY_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed"),
    WHERRY_ERROR(CUDA_ERROR_ASSERT, "an assertion of a kernel failed"),
    WHERRY_ERROR(CUDA_ERROR_TOO_MANY_PEERS, "too many peers"),
    WHERRY_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the memory is registered already"),
    WHERRY_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
    WHERRY_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel broke its stack"),
    WHERRY_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel ran into an illegal instruction"),
    WHERRY_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel used a misaligned address"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong kind"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_PC, "a kernel jumped to an invalid address"),
    WHERRY_ERROR(CUDA_ERROR_LAUNCH_FAILED,
                 "a kernel, or the process of its device, ended unexpectedly"),
    WHERRY_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "the cooperative launch is too large"),
    WHERRY_ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a kernel left tensor memory behind"),
    WHERRY_ERROR(CUDA_ERROR_NOT_PERMITTED, "not permitted"),
    WHERRY_ERROR(CUDA_ERROR_NOT_SUPPORTED, "not supported"),
    WHERRY_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
    WHERRY_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                 "parts of the system are of different versions"),
    WHERRY_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                 "the device does not support the compatibility mode"),
    WHERRY_ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED, "the MPS control daemon cannot be reached"),
    WHERRY_ERROR(CUDA_ERROR_MPS_RPC_FAILURE, "a call to the MPS server failed"),
    WHERRY_ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS server is not ready"),
    WHERRY_ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
                 "the MPS server has no room for another client"),
    WHERRY_ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "the MPS server has no connection left"),
    WHERRY_ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS server ended this client"),
    WHERRY_ERROR(CUDA_ERROR_CDP_NOT_SUPPORTED, "kernels cannot launch kernels here"),
    WHERRY_ERROR(CUDA_ERROR_CDP_VERSION_MISMATCH,
                 "two versions of kernel-side launching do not fit together"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 "not possible while the stream is captured"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier error has ended the capture"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the call would merge two captures"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was begun on another stream"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "captured streams were not joined"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                 "a captured stream would depend on one that is not"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "the capture would depend on the default stream"),
    WHERRY_ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event belongs to a capture"),
    WHERRY_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture"),
    WHERRY_ERROR(CUDA_ERROR_TIMEOUT, "timed out"),
    WHERRY_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph cannot be updated so"),
    WHERRY_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "another device reported an error"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    WHERRY_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid type of resource"),
    WHERRY_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid configuration of resources"),
    WHERRY_ERROR(CUDA_ERROR_KEY_ROTATION, "a key rotation is under way"),
    WHERRY_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

#undef WHERRY_ERROR

static_assert(std::is_sorted(errors.begin(), errors.end(),
                             [](const ErrorRow& a, const ErrorRow& b) { return a.code < b.code; }));

}  // namespace

const ErrorText* find_error_text(CUresult code) {
  const auto* const found =
      std::lower_bound(errors.begin(), errors.end(), code,
                       [](const ErrorRow& entry, CUresult wanted) { return entry.code < wanted; });
  return found != errors.end() && found->code == code ? &found->text : nullptr;
}

}  // namespace wherry::impl
