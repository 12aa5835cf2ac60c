/* The part of the CUDA driver API that Wherry implements: names, values and layouts as in CUDA 13.
 *
 * A program compiled against this header runs with a real libcuda.so.1, and the other way round:
 * source names stand for the same versioned symbols. With -DWHERRY_CUDA_API=12 they stand for those
 * of a CUDA 12 cuda.h. With -DCUDA_API_PER_THREAD_DEFAULT_STREAM the NULL stream is the calling
 * thread's own. Works as <wherry/cuda.h> and, with this file's directory on the include path, as
 * <cuda.h>. C11 and C++.
 *
 * True of every function here, unless its comment says otherwise:
 *   - it may be called from any thread at any time;
 *   - before cuInit has succeeded it returns CUDA_ERROR_NOT_INITIALIZED, and so it does in a
 *     child made by fork(), and in a kernel;
 *   - in a function that cuLaunchHostFunc or cuStreamAddCallback calls it returns
 *     CUDA_ERROR_NOT_PERMITTED;
 *   - a pointer or handle that is not what it should be gives an error code and changes nothing;
 *   - once a kernel of a context has failed, every function that works on that context returns
 *     the same error (CUDA_ERROR_ILLEGAL_ADDRESS or CUDA_ERROR_LAUNCH_FAILED) until
 *     cuDevicePrimaryCtxReset or cuCtxDestroy.
 *
 * "Current context" means the calling thread's. CUDA_ERROR_INVALID_CONTEXT says that there is none;
 * CUDA_ERROR_CONTEXT_IS_DESTROYED that it has been destroyed, CUDA_ERROR_INVALID_CONTEXT too where
 * it is passed as an argument. */

/* The guard is that of a real cuda.h: whichever of the two is included first is the one in use. */
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

/* ---- Which symbol a source name stands for ---- */

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

/* Calling conventions, which Linux has only one of. */
#define CUDAAPI
#define CUDA_CB

#include "detail/cuda_types.h"

/* ---- Errors as text: work at any time, also before cuInit ---- */

/* Gives the name of an error, "CUDA_ERROR_INVALID_VALUE", in *pStr: a string that lives for ever.
 * CUDA_ERROR_INVALID_VALUE: pStr NULL, or an unknown code (then *pStr is NULL). */
CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr);

/* The same for a short description, "invalid argument". */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr);

/* ---- Start ---- */

/* Starts the runtime: probes the kernel, reserves the arena, creates pools, starts the device
 * processes and the fault daemon. Later calls do nothing. Flags must be 0. The environment
 * variables WHERRY_DEVICES, WHERRY_HOST_NODES and WHERRY_HOST_CAPACITY choose the topology; of its
 * devices the program sees those that CUDA_VISIBLE_DEVICES names, in that order, as the CUDA
 * programming guide says: numbers or uuids, up to the first that is none. With
 * CUDA_LAUNCH_BLOCKING=1 every launch waits for its kernel, and answers what became of it.
 * CUDA_ERROR_INVALID_VALUE: Flags not 0, or a malformed environment variable (a log line on stderr
 * shows where); CUDA_ERROR_NO_DEVICE: CUDA_VISIBLE_DEVICES leaves none; CUDA_ERROR_NOT_PERMITTED,
 * CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OPERATING_SYSTEM: the kernel refused something (the log line
 * says what); CUDA_ERROR_NOT_INITIALIZED: in a fork()ed child of a process that had called cuInit.
 */
CUresult CUDAAPI cuInit(unsigned int Flags);

/* The version of the CUDA API that is implemented: 13000 (1000 * major + 10 * minor). Works before
 * cuInit. CUDA_ERROR_INVALID_VALUE: driverVersion NULL. */
CUresult CUDAAPI cuDriverGetVersion(int* driverVersion);

/* ---- Devices ---- */

/* Gives the handle of device `ordinal`, counted from 0.
 * CUDA_ERROR_INVALID_DEVICE: no such device; CUDA_ERROR_INVALID_VALUE: device NULL. */
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal);

/* CUDA_ERROR_INVALID_VALUE: count NULL. */
CUresult CUDAAPI cuDeviceGetCount(int* count);

/* Writes the device's name into name[0, len), cut to fit and always terminated.
 * CUDA_ERROR_INVALID_VALUE: name NULL or len not positive; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev);

/* The capacity of the device's memory pool, in bytes.
 * CUDA_ERROR_INVALID_VALUE: bytes NULL; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev);

/* An identifier of the device: the same for the same device in every process of this machine until
 * it is booted again, whichever devices the process sees. CUDA_ERROR_INVALID_VALUE: uuid NULL;
 * CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev);
#endif

/* One property of the device. CUDA_ERROR_INVALID_VALUE: pi NULL or an unknown attribute;
 * CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev);

/* ---- Primary contexts: one for each device, shared by everybody ---- */

/* Gives the device's primary context and counts one more user. Does not make it current.
 * CUDA_ERROR_INVALID_VALUE: pctx NULL; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev);

/* Counts one user less. The last one closes the context: waits for its unfinished work, destroys
 * its streams and events. Who has it current gets CUDA_ERROR_CONTEXT_IS_DESTROYED until it is
 * retained again, by the same handle. Managed allocations survive. CUDA_ERROR_INVALID_CONTEXT: it
 * has no users; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev);

/* Starts a fresh device process and clears the error of the device's primary context. Work that has
 * not finished is thrown away, that of other contexts of the device too: these then fail with
 * CUDA_ERROR_LAUNCH_FAILED, and stay failed until they are destroyed. Streams and events of the
 * primary context are destroyed. Unlike CUDA, managed allocations survive, with their contents and
 * advice. The number of users stays as it was; there may be none. CUDA_ERROR_INVALID_DEVICE;
 * CUDA_ERROR_OPERATING_SYSTEM: the new process could not be started (a log line says why, and the
 * device is unusable until a later reset succeeds). */
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev);

/* *active: 1 if the primary context has users, else 0. *flags: its CUctx_flags.
 * CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active);

/* ---- Contexts: each owns streams and events; memory belongs to none ---- */

/* Creates a context on the device and makes it the calling thread's current one, on top of its
 * stack. flags: CUctx_flags. ctxCreateParams: NULL; execution affinity and graphics interoperation
 * do not exist here.
 * CUDA_ERROR_INVALID_VALUE: pctx NULL or unknown flags; CUDA_ERROR_INVALID_DEVICE;
 * CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, CUDA_ERROR_NOT_SUPPORTED: parameters that ask for one of
 * the two; CUDA_ERROR_LAUNCH_FAILED: the device's process has ended, cuDevicePrimaryCtxReset starts
 * another. */
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
 * from the calling thread's stack if it is on top. Other threads that have it current get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. Nothing else is freed: managed allocations belong to the
 * process, not to a context. CUDA_ERROR_INVALID_CONTEXT: not a context, destroyed already, or a
 * primary context. */
CUresult CUDAAPI cuCtxDestroy(CUcontext ctx);

/* Makes ctx current on top of the calling thread's stack.
 * CUDA_ERROR_INVALID_CONTEXT: not a context, or destroyed. */
CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx);

/* Takes the top off the calling thread's stack and gives it in *pctx, which may be NULL.
 * CUDA_ERROR_INVALID_CONTEXT: the stack is empty. */
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx);

/* Replaces the top of the calling thread's stack by ctx; NULL only takes the top off.
 * CUDA_ERROR_INVALID_CONTEXT: not a context, or destroyed. */
CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx);

/* Gives the current context, or NULL, which is no error. CUDA_ERROR_INVALID_VALUE: pctx NULL. */
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx);

/* The current context's device. CUDA_ERROR_INVALID_VALUE: device NULL; CUDA_ERROR_INVALID_CONTEXT.
 */
CUresult CUDAAPI cuCtxGetDevice(CUdevice* device);

/* Waits until everything that was given to the current context's streams has finished.
 * CUDA_ERROR_INVALID_CONTEXT; the context's error, also when it arises while waiting: a device
 * process that dies is noticed within a second. */
CUresult CUDAAPI cuCtxSynchronize(void);

#include "detail/cuda_copies.h"
#include "detail/cuda_device_memory.h"
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
