/* Part of cuda.h, which includes it: kinds of devices, and settings of contexts, of which only the
 * way of waiting has an effect. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_SETTINGS_H
#define WHERRY_CUDA_SETTINGS_H

/* ---- Kinds of devices, and their places ---- */

/* Returns CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceComputeCapability(int* major, int* minor, CUdevice dev);

typedef struct CUdevprop_st {
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int sharedMemPerBlock;
  int totalConstantMemory;
  int SIMDWidth;
  int memPitch;
  int regsPerBlock;
  int clockRate;
  int textureAlign;
} CUdevprop_v1;
typedef CUdevprop_v1 CUdevprop;

/* Returns the attributes with the names of the fields. Older than cuDeviceGetAttribute.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: prop is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* prop, CUdevice dev);

/* Returns 0 in *pi: no context can be confined to some of the device's workers.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pi is NULL, or type is not a CUexecAffinityType.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev);

/* Return "domain:bus:device.function", with the numbers that cuDeviceGetAttribute returns; and the
 * device for such a text, in which the domain and the function may be omitted.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, or len is too small for the text and its
 *   terminating zero byte; then the text is cut, but ends with a zero byte.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev);
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId);

/* ---- Settings of contexts: of these only CU_CTX_SCHED_* flags have an effect ---- */

typedef enum CUlimit_enum {
  CU_LIMIT_STACK_SIZE = 0x00,
  CU_LIMIT_PRINTF_FIFO_SIZE = 0x01,
  CU_LIMIT_MALLOC_HEAP_SIZE = 0x02,
  CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 0x03,
  CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 0x04,
  CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 0x05,
  CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06,
  CU_LIMIT_SHMEM_SIZE = 0x07,
  CU_LIMIT_CIG_ENABLED = 0x08,
  CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 0x09,
  CU_LIMIT_MAX
} CUlimit;

/* Set or get CUctx_flags: of the device's primary context, now and whenever it is active; or of the
 * current context.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: flags is NULL, or contains unknown flags.
 * - CUDA_ERROR_INVALID_DEVICE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags);
CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags);
CUresult CUDAAPI cuCtxSetFlags(unsigned int flags);

/* Return a number that no other context has; and the API version of the context, 3020. ctx NULL
 * means the current one.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long* ctxId);
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int* version);

/* Get or set the current context's limits for kernels: CU_LIMIT_STACK_SIZE,
 * CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE.
 * Errors:
 * - CUDA_ERROR_UNSUPPORTED_LIMIT: any other limit of the enumeration.
 * - CUDA_ERROR_INVALID_VALUE: pvalue is NULL, or a number that is not in the enumeration.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetLimit(size_t* pvalue, CUlimit limit);
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value);

/* Get or set how the current context's kernels prefer to divide memory between cache and shared
 * memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pconfig is NULL, or an unknown preference.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* pconfig);
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config);

/* Deprecated by CUDA. cuCtxAttach counts one more user of the current context and returns it in
 * *pctx; cuCtxDetach counts one less, and destroys the context with the last user. flags: 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pctx is NULL, or flags is not 0.
 * - CUDA_ERROR_INVALID_CONTEXT: also a primary context that is passed to cuCtxDetach. */
CUresult CUDAAPI cuCtxAttach(CUcontext* pctx, unsigned int flags);
CUresult CUDAAPI cuCtxDetach(CUcontext ctx);

/* Start and stop profiling. There is no profiler, so they have no effect.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

#endif
