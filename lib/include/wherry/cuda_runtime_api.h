/* The part of the CUDA runtime API that Wherry implements: names, values and layouts as in CUDA 13.
 *
 * It works on the same memory, devices and contexts as cuda.h, under other names; a program may use
 * both. With -DWHERRY_CUDA_API=12 cudaMemAdvise has the signature of CUDA 12. The header works as
 * <wherry/cuda_runtime_api.h> and, with its directory on the include path, as <cuda_runtime_api.h>.
 * It compiles as C11 and C++.
 *
 * The following holds for every function, unless its comment says otherwise:
 *   - Any thread may call it at any time.
 *   - The first call starts the library like cuInit, with the errors of cuInit. If the calling
 *     thread has no context, it gets the primary context of its device, which is then kept in use
 *     until the process ends. A context that the thread has made current through cuda.h is used
 *     unchanged.
 *   - An error is returned and also stored as the thread's last error.
 *   - In a child made by fork(), and in a kernel, it returns cudaErrorInitializationError; in a
 *     function that cudaLaunchHostFunc or cudaStreamAddCallback calls, it returns
 *     cudaErrorNotPermitted.
 *   - After a kernel of its context has failed, it returns that error (cudaErrorIllegalAddress,
 *     cudaErrorLaunchFailure) until cuDevicePrimaryCtxReset.
 *
 * A code without a condition in the lists of errors has the meaning given in cuda.h for the
 * corresponding CUresult. */

/* The include guard is that of a real cuda_runtime_api.h: the header that is included first is
 * used. */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__

#include "cuda.h"

#define CUDART_VERSION CUDA_VERSION

/* The symbols that source names stand for. The name without a suffix takes a location, as in CUDA
 * 13, and its NULL stream is the context's. */
#if WHERRY_CUDA_API == 12
#define cudaMemAdvise cudaMemAdvise_v1
#define cudaMemPrefetchAsync __CUDA_API_PTSZ(cudaMemPrefetchAsync_v1)
#endif
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cudaMemDiscardAndPrefetchBatchAsync __CUDA_API_PTSZ(cudaMemDiscardAndPrefetchBatchAsync)
#define cudaMemDiscardBatchAsync __CUDA_API_PTSZ(cudaMemDiscardBatchAsync)
#define cudaMemPrefetchBatchAsync __CUDA_API_PTSZ(cudaMemPrefetchBatchAsync)
#if WHERRY_CUDA_API == 12
#define cudaMemPrefetchAsync_v2 __CUDA_API_PTSZ(cudaMemPrefetchAsync_v2)
#else
#define cudaMemPrefetchAsync __CUDA_API_PTSZ(cudaMemPrefetchAsync)
#endif
#endif

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define __CUDART_API_PER_THREAD_DEFAULT_STREAM
#define __CUDART_API_PTDS(api) api##_ptds
#define __CUDART_API_PTSZ(api) api##_ptsz
#else
#define __CUDART_API_PTDS(api) api
#define __CUDART_API_PTSZ(api) api
#endif

#if defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaEventRecord __CUDART_API_PTSZ(cudaEventRecord)
#define cudaEventRecordWithFlags __CUDART_API_PTSZ(cudaEventRecordWithFlags)
#define cudaGetDriverEntryPoint __CUDART_API_PTSZ(cudaGetDriverEntryPoint)
#define cudaGetDriverEntryPointByVersion __CUDART_API_PTSZ(cudaGetDriverEntryPointByVersion)
#define cudaLaunchHostFunc __CUDART_API_PTSZ(cudaLaunchHostFunc)
#define cudaStreamAddCallback __CUDART_API_PTSZ(cudaStreamAddCallback)
#define cudaStreamAttachMemAsync __CUDART_API_PTSZ(cudaStreamAttachMemAsync)
#define cudaStreamGetCaptureInfo __CUDART_API_PTSZ(cudaStreamGetCaptureInfo)
#define cudaStreamGetDevice __CUDART_API_PTSZ(cudaStreamGetDevice)
#define cudaStreamGetFlags __CUDART_API_PTSZ(cudaStreamGetFlags)
#define cudaStreamGetId __CUDART_API_PTSZ(cudaStreamGetId)
#define cudaStreamGetPriority __CUDART_API_PTSZ(cudaStreamGetPriority)
#define cudaStreamIsCapturing __CUDART_API_PTSZ(cudaStreamIsCapturing)
#define cudaStreamQuery __CUDART_API_PTSZ(cudaStreamQuery)
#define cudaStreamSynchronize __CUDART_API_PTSZ(cudaStreamSynchronize)
#define cudaStreamWaitEvent __CUDART_API_PTSZ(cudaStreamWaitEvent)
#endif

/* Calling conventions; Linux has only one. */
#define CUDARTAPI
#define CUDART_CB

/* Default arguments of parameters, in C++ only. */
#if !defined(__dv)
#if defined(__cplusplus)
#define __dv(v) = v
#else
#define __dv(v)
#endif
#endif

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01

/* The default streams by name, see CU_STREAM_LEGACY. */
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaEventRecordDefault 0x00
#define cudaEventRecordExternal 0x01
#define cudaEventWaitDefault 0x00
#define cudaEventWaitExternal 0x01

/* Default arguments of parameters, if the macro is not defined yet. */
#ifndef __dv
#ifdef __cplusplus
#define __dv(v) = v
#else
#define __dv(v)
#endif
#endif

#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaMemAttachSingle 0x04

#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04

#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaHostRegisterIoMemory 0x04
#define cudaHostRegisterReadOnly 0x08

/* Device numbers for the host and for no device, where an argument or a result can be one. */
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#include "detail/cuda_runtime_types.h"

/* ---- Errors: these four do not start the library, and work in every thread at any time ---- */

/* Returns the calling thread's last error and clears it; cudaSuccess if there is none. */
cudaError_t CUDARTAPI cudaGetLastError(void);

/* Returns the calling thread's last error without clearing it. */
cudaError_t CUDARTAPI cudaPeekAtLastError(void);

/* Returns the name of an error, for example "cudaErrorInvalidValue", in a string that is never
 * freed; "unrecognized error code" for an unknown number. */
const char* CUDARTAPI cudaGetErrorName(cudaError_t error);

/* Returns a short description of an error, for example "invalid argument". */
const char* CUDARTAPI cudaGetErrorString(cudaError_t error);

/* ---- Devices ---- */

/* Returns the number of devices. Makes no context.
 * Errors:
 * - cudaErrorInvalidValue: count is NULL.
 * - cudaErrorNoDevice: no device is visible; *count is 0. */
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count);

/* Makes the primary context of the device the calling thread's current one.
 * Errors:
 * - cudaErrorInvalidDevice: there is no such device; nothing changes. */
cudaError_t CUDARTAPI cudaSetDevice(int device);

/* Returns the device of the calling thread's current context; without one, the device of this
 * thread's last cudaSetDevice, initially 0. Makes no context.
 * Errors:
 * - cudaErrorInvalidValue: device is NULL. */
cudaError_t CUDARTAPI cudaGetDevice(int* device);

/* As cuDeviceGetAttribute. Makes no context.
 * Errors:
 * - cudaErrorInvalidValue: value is NULL, or an unknown attribute.
 * - cudaErrorInvalidDevice. */
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attr, int device);

/* Waits until all work that was submitted to the current context's streams has finished. */
cudaError_t CUDARTAPI cudaDeviceSynchronize(void);

/* As cuCtxGetStreamPriorityRange. */
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority);

/* ---- Managed memory ---- */

/* As cuMemAllocManaged: allocates `size` bytes, valid at one address on the host and on every
 * device, initially zero. flags: cudaMemAttachGlobal or cudaMemAttachHost. If size is 0, *devPtr
 * is NULL.
 * Errors:
 * - cudaErrorInvalidValue: devPtr is NULL, or other flags.
 * - cudaErrorMemoryAllocation: not enough memory. */
#ifdef __cplusplus
cudaError_t CUDARTAPI cudaMallocManaged(void** devPtr, size_t size,
                                        unsigned int flags = cudaMemAttachGlobal);
#else
cudaError_t CUDARTAPI cudaMallocManaged(void** devPtr, size_t size, unsigned int flags);
#endif

/* As cuMemAlloc: allocates `size` bytes that only the current device can access, initially zero. A
 * size of 0 gives NULL.
 * Errors:
 * - cudaErrorInvalidValue: devPtr is NULL.
 * - cudaErrorMemoryAllocation: not enough memory. */
cudaError_t CUDARTAPI cudaMalloc(void** devPtr, size_t size);

/* As cuMemFree; NULL frees nothing, but still starts the library.
 * Errors:
 * - cudaErrorInvalidValue: devPtr is not the first address of a live allocation. */
cudaError_t CUDARTAPI cudaFree(void* devPtr);

/* ---- Host memory ----
 *
 * Each is the function of the driver API for host memory, with its errors. A size of 0 gives NULL.
 * cudaErrorMemoryAllocation: not enough memory. */
cudaError_t CUDARTAPI cudaMallocHost(void** ptr, size_t size);
cudaError_t CUDARTAPI cudaHostAlloc(void** pHost, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaFreeHost(void* ptr);
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags);
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int* pFlags, void* pHost);
cudaError_t CUDARTAPI cudaHostRegister(void* ptr, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaHostUnregister(void* ptr);

/* Returns the kind of memory that `ptr` points to; the device that holds it, or in whose context it
 * was allocated; and the address of the byte for kernels and for the host, NULL if they have none.
 * Memory that this library does not know is cudaMemoryTypeUnregistered, with device -2 and ptr
 * itself as hostPointer.
 * Errors:
 * - cudaErrorInvalidValue: attributes is NULL. */
cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes* attributes,
                                               const void* ptr);

/* As cuMemAdvise, with its errors: gives advice for `count` bytes from devPtr. cudaMemAdvise_v2 is
 * CUDA 12's name for the function with a location; with CUDA 12 names cudaMemAdvise takes the
 * number of a device, or cudaCpuDeviceId. */
#if WHERRY_CUDA_API == 12
cudaError_t CUDARTAPI cudaMemAdvise(const void* devPtr, size_t count, enum cudaMemoryAdvise advice,
                                    int device);
#else
cudaError_t CUDARTAPI cudaMemAdvise(const void* devPtr, size_t count, enum cudaMemoryAdvise advice,
                                    struct cudaMemLocation location);
#endif
cudaError_t CUDARTAPI cudaMemAdvise_v2(const void* devPtr, size_t count,
                                       enum cudaMemoryAdvise advice,
                                       struct cudaMemLocation location);

/* As cuMemPrefetchAsync, with its errors: moves `count` bytes from devPtr to `location`, in stream
 * order. cudaMemPrefetchAsync_v2 is CUDA 12's name for the function with a location; with CUDA 12
 * names cudaMemPrefetchAsync takes the number of a device, or cudaCpuDeviceId. In C++ the stream
 * may be omitted; it is then the default one. */
#if WHERRY_CUDA_API == 12
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void* devPtr, size_t count, int dstDevice,
                                           cudaStream_t stream __dv(0));
#else
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void* devPtr, size_t count,
                                           struct cudaMemLocation location, unsigned int flags,
                                           cudaStream_t stream __dv(0));
#endif
cudaError_t CUDARTAPI cudaMemPrefetchAsync_v2(const void* devPtr, size_t count,
                                              struct cudaMemLocation location, unsigned int flags,
                                              cudaStream_t stream __dv(0));

/* As cuMemPrefetchBatchAsync, cuMemDiscardBatchAsync and cuMemDiscardAndPrefetchBatchAsync. */
cudaError_t CUDARTAPI cudaMemPrefetchBatchAsync(void** dptrs, size_t* sizes, size_t count,
                                                struct cudaMemLocation* prefetchLocs,
                                                size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                unsigned long long flags, cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemDiscardBatchAsync(void** dptrs, size_t* sizes, size_t count,
                                               unsigned long long flags, cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemDiscardAndPrefetchBatchAsync(
    void** dptrs, size_t* sizes, size_t count, struct cudaMemLocation* prefetchLocs,
    size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream);

/* As cuMemRangeGetAttribute, with its sizes and errors. */
cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void* data, size_t dataSize,
                                               enum cudaMemRangeAttribute attribute,
                                               const void* devPtr, size_t count);

/* As cuMemRangeGetAttributes. */
cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void** data, size_t* dataSizes,
                                                enum cudaMemRangeAttribute* attributes,
                                                size_t numAttributes, const void* devPtr,
                                                size_t count);

#include "detail/cuda_runtime_device_memory.h"

/* ---- Streams and events: each is the function of cuda.h with the same name and errors ---- */

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* pStream);
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags);
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags,
                                                   int priority);
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream);

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int* priority);
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags);
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId);
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t hStream, int* device);

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream);
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream);

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                          unsigned int flags __dv(0));
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                            void* userData, unsigned int flags);
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData);
#ifdef __cplusplus
cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void* devPtr, size_t length = 0,
                                               unsigned int flags = cudaMemAttachSingle);
#else
cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void* devPtr, size_t length,
                                               unsigned int flags);
#endif

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event);
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream __dv(0));
cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream __dv(0),
                                               unsigned int flags __dv(0));
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event);

/* ---- Versions, and settings of devices, which are those of their primary contexts ---- */

#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceBlockingSync 0x04
#define cudaDeviceScheduleMask 0x07
#define cudaDeviceMapHost 0x08
#define cudaDeviceLmemResizeToMax 0x10
#define cudaDeviceSyncMemops 0x80
#define cudaDeviceMask 0xff
#define cudaInitDeviceFlagsAreValid 0x01

enum cudaLimit {
  cudaLimitStackSize = 0x00,
  cudaLimitPrintfFifoSize = 0x01,
  cudaLimitMallocHeapSize = 0x02,
  cudaLimitDevRuntimeSyncDepth = 0x03,
  cudaLimitDevRuntimePendingLaunchCount = 0x04,
  cudaLimitMaxL2FetchGranularity = 0x05,
  cudaLimitPersistingL2CacheSize = 0x06
};

enum cudaFuncCache {
  cudaFuncCachePreferNone = 0,
  cudaFuncCachePreferShared = 1,
  cudaFuncCachePreferL1 = 2,
  cudaFuncCachePreferEqual = 3
};

enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
};

/* Both return 13000.
 * Errors:
 * - cudaErrorInvalidValue: a pointer is NULL. */
cudaError_t CUDARTAPI cudaDriverGetVersion(int* driverVersion);
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* runtimeVersion);

/* As the functions of cuda.h with these names. Make no context. */
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* pciBusId, int len, int device);
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int* device, const char* pciBusId);

/* Makes the device's primary context without making it current. flags: 0, or
 * cudaInitDeviceFlagsAreValid: deviceFlags apply as for cudaSetDeviceFlags. */
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);

/* As cuDevicePrimaryCtxSetFlags and cuDevicePrimaryCtxGetState, for the thread's device. */
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags);
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int* flags);

/* As cuDevicePrimaryCtxReset, for the thread's device. */
cudaError_t CUDARTAPI cudaDeviceReset(void);

/* As cuCtxGetLimit and cuCtxGetCacheConfig, and the functions that set them. */
cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t* pValue, enum cudaLimit limit);
cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache* pCacheConfig);
cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig);

/* As cuProfilerStart and cuProfilerStop. */
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

/* ---- Finding functions of cuda.h; works at any time ---- */

enum cudaGetDriverEntryPointFlags {
  cudaEnableDefault = 0x0,
  cudaEnableLegacyStream = 0x1,
  cudaEnablePerThreadDefaultStream = 0x2
};

typedef CUuuid cudaUUID_t;

/* The spelling of the last name is CUDA's. */
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1,
  cudaDriverEntryPointVersionNotSufficent = 2
};

/* As cuGetProcAddress: the first for the library's CUDART_VERSION, the second for CUDA
 * `cudaVersion`. */
cudaError_t CUDARTAPI
cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult* driverStatus __dv(NULL));
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(
    const char* symbol, void** funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult* driverStatus __dv(NULL));

/* As cuGetExportTable. */
cudaError_t CUDARTAPI cudaGetExportTable(const void** ppExportTable,
                                         const cudaUUID_t* pExportTableId);
#include "detail/cuda_runtime_copies.h"
#include "detail/cuda_runtime_graphs.h"
#include "detail/cuda_runtime_ipc.h"
#include "detail/cuda_runtime_kernels.h"
#include "detail/cuda_runtime_properties.h"

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
