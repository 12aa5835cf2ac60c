/* The part of the CUDA driver API that Wherry implements: names, values and layouts as in CUDA 13.
 *
 * A program that is compiled against this header also runs with a real libcuda.so.1, and the other
 * way round, because source names stand for the same versioned symbols. With -DWHERRY_CUDA_API=12
 * they stand for the symbols of a CUDA 12 cuda.h. With -DCUDA_API_PER_THREAD_DEFAULT_STREAM the
 * NULL stream is the calling thread's own default stream. The header works as <wherry/cuda.h> and,
 * with its directory on the include path, as <cuda.h>. It compiles as C11 and C++.
 *
 * The following holds for every function, unless its comment says otherwise:
 *   - Any thread may call it at any time.
 *   - Before cuInit has succeeded it returns CUDA_ERROR_NOT_INITIALIZED; also in a child made by
 *     fork(), and in a kernel.
 *   - In a function that cuLaunchHostFunc or cuStreamAddCallback calls, it returns
 *     CUDA_ERROR_NOT_PERMITTED.
 *   - An invalid pointer or handle gives an error code, and nothing changes.
 *   - After a kernel of a context has failed, every function that works on that context returns the
 *     same error (CUDA_ERROR_ILLEGAL_ADDRESS or CUDA_ERROR_LAUNCH_FAILED) until
 *     cuDevicePrimaryCtxReset or cuCtxDestroy. The comments call it the context's error.
 *
 * "Current context" means the calling thread's current context. In the lists of errors, a code
 * without a condition means:
 *   - CUDA_ERROR_INVALID_CONTEXT: there is no current context, or a context that is passed as an
 *     argument is invalid or destroyed.
 *   - CUDA_ERROR_CONTEXT_IS_DESTROYED: the current context has been destroyed. All functions that
 *     use the current context may return it.
 *   - CUDA_ERROR_INVALID_DEVICE: there is no such device.
 *   - CUDA_ERROR_INVALID_HANDLE: the argument is not a valid handle of its type. */

/* The include guard is that of a real cuda.h: the header that is included first is used. */
#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef WHERRY_CUDA_API
#define WHERRY_CUDA_API 13
#endif
#if WHERRY_CUDA_API != 12 && WHERRY_CUDA_API != 13
#error "WHERRY_CUDA_API must be 12 or 13"
#endif

#if WHERRY_CUDA_API == 12
#define CUDA_VERSION 12090
#else
#define CUDA_VERSION 13000
#endif

/* ---- The symbols that source names stand for ---- */

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define __CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __CUDA_API_PTDS(api) api##_ptds
#define __CUDA_API_PTSZ(api) api##_ptsz
#else
#define __CUDA_API_PTDS(api) api
#define __CUDA_API_PTSZ(api) api
#endif

#if WHERRY_CUDA_API == 12
#define cuCtxCreate cuCtxCreate_v2
#else
#define cuCtxCreate cuCtxCreate_v4
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuMemAdvise cuMemAdvise_v2
#define cuMemPrefetchAsync __CUDA_API_PTSZ(cuMemPrefetchAsync_v2)
#endif
#define cuArray3DCreate cuArray3DCreate_v2
#define cuArrayCreate cuArrayCreate_v2
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuGetProcAddress cuGetProcAddress_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuStreamDestroy cuStreamDestroy_v2
#if WHERRY_CUDA_API == 12
#define cuStreamGetCaptureInfo __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v2)
#else
#define cuStreamGetCaptureInfo __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v3)
#endif
#define cuModuleGetGlobal cuModuleGetGlobal_v2

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuEventRecord __CUDA_API_PTSZ(cuEventRecord)
#define cuEventRecordWithFlags __CUDA_API_PTSZ(cuEventRecordWithFlags)
#define cuLaunchCooperativeKernel __CUDA_API_PTSZ(cuLaunchCooperativeKernel)
#define cuLaunchHostFunc __CUDA_API_PTSZ(cuLaunchHostFunc)
#define cuLaunchKernel __CUDA_API_PTSZ(cuLaunchKernel)
#define cuLaunchKernelEx __CUDA_API_PTSZ(cuLaunchKernelEx)
#define cuMemDiscardAndPrefetchBatchAsync __CUDA_API_PTSZ(cuMemDiscardAndPrefetchBatchAsync)
#define cuMemDiscardBatchAsync __CUDA_API_PTSZ(cuMemDiscardBatchAsync)
#define cuMemPrefetchBatchAsync __CUDA_API_PTSZ(cuMemPrefetchBatchAsync)
#if WHERRY_CUDA_API == 12
#define cuMemPrefetchAsync __CUDA_API_PTSZ(cuMemPrefetchAsync)
#define cuMemPrefetchAsync_v2 __CUDA_API_PTSZ(cuMemPrefetchAsync_v2)
#endif
#define cuStreamAddCallback __CUDA_API_PTSZ(cuStreamAddCallback)
#define cuStreamAttachMemAsync __CUDA_API_PTSZ(cuStreamAttachMemAsync)
#if WHERRY_CUDA_API == 12
#define cuStreamGetCaptureInfo_v3 __CUDA_API_PTSZ(cuStreamGetCaptureInfo_v3)
#endif
#define cuStreamGetCtx __CUDA_API_PTSZ(cuStreamGetCtx)
#define cuStreamGetCtx_v2 __CUDA_API_PTSZ(cuStreamGetCtx_v2)
#define cuStreamGetDevice __CUDA_API_PTSZ(cuStreamGetDevice)
#define cuStreamGetFlags __CUDA_API_PTSZ(cuStreamGetFlags)
#define cuStreamGetId __CUDA_API_PTSZ(cuStreamGetId)
#define cuStreamGetPriority __CUDA_API_PTSZ(cuStreamGetPriority)
#define cuStreamIsCapturing __CUDA_API_PTSZ(cuStreamIsCapturing)
#define cuStreamQuery __CUDA_API_PTSZ(cuStreamQuery)
#define cuStreamSynchronize __CUDA_API_PTSZ(cuStreamSynchronize)
#define cuStreamWaitEvent __CUDA_API_PTSZ(cuStreamWaitEvent)
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Calling conventions; Linux has only one. */
#define CUDAAPI
#define CUDA_CB

#include "detail/cuda_device_attributes.h"
#include "detail/cuda_types.h"

/* ---- Errors as text: these functions work at any time, also before cuInit ---- */

/* Returns the name of an error, for example "CUDA_ERROR_INVALID_VALUE", in *pStr. The string is
 * never freed.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pStr is NULL, or the code is unknown (then *pStr is NULL). */
CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr);

/* Returns a short description of an error, for example "invalid argument", like cuGetErrorName. */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr);

/* ---- Initialization ---- */

/* Starts the library: probes Linux, reserves the arena, creates the pools, and starts the device
 * processes and the fault daemon. Later calls do nothing. Flags must be 0.
 *
 * The environment variables WHERRY_DEVICES, WHERRY_HOST_NODES and WHERRY_HOST_CAPACITY choose the
 * topology. The program sees those of its devices that CUDA_VISIBLE_DEVICES names, in that order,
 * as the CUDA programming guide says: numbers or UUIDs, up to the first invalid entry. With
 * CUDA_LAUNCH_BLOCKING=1 every launch waits for its kernel and returns the kernel's result.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: Flags is not 0, or an environment variable is malformed (a log line
 *   on stderr shows where).
 * - CUDA_ERROR_NO_DEVICE: CUDA_VISIBLE_DEVICES leaves no device.
 * - CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OPERATING_SYSTEM: Linux refused
 *   something (the log line says what).
 * - CUDA_ERROR_NOT_INITIALIZED: the caller is a child by fork() of a process that had called
 *   cuInit. */
CUresult CUDAAPI cuInit(unsigned int Flags);

/* Returns the version of the CUDA API that is implemented: 13000 (1000 * major + 10 * minor). Works
 * before cuInit.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: driverVersion is NULL. */
CUresult CUDAAPI cuDriverGetVersion(int* driverVersion);

/* ---- Devices ---- */

/* Returns the handle of device `ordinal`, counted from 0.
 * Errors:
 * - CUDA_ERROR_INVALID_DEVICE: there is no such device.
 * - CUDA_ERROR_INVALID_VALUE: device is NULL. */
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal);

/* Returns the number of devices.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: count is NULL. */
CUresult CUDAAPI cuDeviceGetCount(int* count);

/* Writes the device's name into name[0, len), truncated if necessary and always terminated.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: name is NULL, or len is not positive.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev);

/* Returns the capacity of the device's memory pool, in bytes.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: bytes is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev);

/* Returns an identifier of the device. All processes of this machine get the same one for the same
 * device until the machine is booted again, whichever devices they see.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: uuid is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev);
#endif

/* Returns one property of the device.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pi is NULL, or the attribute is unknown.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev);

/* ---- Primary contexts: one for each device, shared by all its users ---- */

/* Returns the device's primary context and counts one more user. Does not make it current.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pctx is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev);

/* Counts one user less. The last one closes the context: the call waits for the context's
 * unfinished work and destroys its streams and events. Threads in which it is current get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED until it is retained again, with the same handle. Managed
 * allocations survive.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: the context has no users.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev);

/* Starts a new device process and clears the error of the device's primary context. Unfinished work
 * is discarded, also that of the device's other contexts; those contexts then fail with
 * CUDA_ERROR_LAUNCH_FAILED until they are destroyed. Streams and events of the primary context are
 * destroyed. Unlike in CUDA, managed allocations survive, with their contents and advice. The
 * number of users does not change, and may be 0.
 * Errors:
 * - CUDA_ERROR_INVALID_DEVICE.
 * - CUDA_ERROR_OPERATING_SYSTEM: the new process could not be started (a log line says why; the
 *   device is unusable until a later reset succeeds). */
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev);

/* Returns in *active 1 if the primary context has users, else 0; and in *flags its CUctx_flags.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active);

/* ---- Contexts: each owns streams and events; memory belongs to no context ---- */

/* Creates a context on the device and makes it the calling thread's current one, on top of its
 * stack. flags: CUctx_flags. ctxCreateParams: NULL or zeros; execution affinity and graphics
 * interoperation are not supported.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pctx is NULL, or flags are unknown.
 * - CUDA_ERROR_INVALID_DEVICE.
 * - CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, CUDA_ERROR_NOT_SUPPORTED: the parameters ask for
 *   execution affinity or for graphics interoperation.
 * - CUDA_ERROR_LAUNCH_FAILED: the device's process has ended; cuDevicePrimaryCtxReset starts
 *   another. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams,
                                unsigned int flags, CUdevice dev);
CUresult CUDAAPI cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                                unsigned int flags, CUdevice dev);
#else
CUresult CUDAAPI cuCtxCreate(CUcontext* pctx, CUctxCreateParams* ctxCreateParams,
                             unsigned int flags, CUdevice dev);
#endif

/* Destroys the context: waits for its unfinished work, destroys its streams and events, and pops it
 * from the calling thread's stack if it is on top. Other threads in which it is current get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. Nothing else is freed: managed allocations belong to the
 * process, not to a context.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: not a context, already destroyed, or a primary context. */
CUresult CUDAAPI cuCtxDestroy(CUcontext ctx);

/* Makes ctx current, on top of the calling thread's stack.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: not a context, or destroyed. */
CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx);

/* Removes the top of the calling thread's stack and returns it in *pctx, which may be NULL.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: the stack is empty. */
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx);

/* Replaces the top of the calling thread's stack by ctx; NULL only removes the top.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: not a context, or destroyed. */
CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx);

/* Returns the current context, or NULL if there is none, which is no error.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pctx is NULL. */
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx);

/* Returns the current context's device.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: device is NULL.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetDevice(CUdevice* device);

/* Waits until all work that was submitted to the current context's streams has finished.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT.
 * - The context's error, also one that occurs during the wait. The death of a device process is
 *   noticed within a second. */
CUresult CUDAAPI cuCtxSynchronize(void);

#include "detail/cuda_copies.h"
#include "detail/cuda_device_memory.h"
#include "detail/cuda_graphs.h"
#include "detail/cuda_host_memory.h"
#include "detail/cuda_ipc.h"
#include "detail/cuda_libraries.h"
#include "detail/cuda_memory.h"
#include "detail/cuda_modules.h"
#include "detail/cuda_occupancy.h"
#include "detail/cuda_pointers.h"
#include "detail/cuda_pools.h"
#include "detail/cuda_proc_address.h"
#include "detail/cuda_settings.h"
#include "detail/cuda_streams.h"
#include "detail/cuda_virtual_memory.h"

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
