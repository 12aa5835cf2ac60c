/* Part of cuda.h, which includes it: what kind of devices there are, and what contexts and streams
 * can be asked and told that changes nothing here. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_SETTINGS_H
#define WHERRY_CUDA_SETTINGS_H

/* ---- What kind of devices there are, and where ---- */

/* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
 * CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_DEVICE. */
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

/* The attributes of these names, as before there was cuDeviceGetAttribute.
 * CUDA_ERROR_INVALID_VALUE: prop NULL; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetProperties(CUdevprop* prop, CUdevice dev);

/* *pi: 0, no context can be confined to some of the device's workers. CUDA_ERROR_INVALID_VALUE: pi
 * NULL, or no CUexecAffinityType; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev);

/* "domain:bus:device.function", of the numbers that cuDeviceGetAttribute gives; and the device of
 * such a text, in which the domain and the function may be left out. CUDA_ERROR_INVALID_VALUE: a
 * NULL pointer, or len too small for the text and its NUL; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev);
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId);

/* ---- Settings of contexts: kept and told, without effect ---- */

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

/* CUctx_flags: of the device's primary context, now and whenever it is active; of the current
 * context. CUDA_ERROR_INVALID_VALUE: flags NULL, or unknown ones; CUDA_ERROR_INVALID_DEVICE;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags);
CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags);
CUresult CUDAAPI cuCtxSetFlags(unsigned int flags);

/* A number that no other context has; the version of the API that a context is of, 3020. ctx NULL:
 * the current one. CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long* ctxId);
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int* version);

/* The current context's limits for kernels: CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE,
 * CU_LIMIT_MALLOC_HEAP_SIZE. CUDA_ERROR_UNSUPPORTED_LIMIT: any other; CUDA_ERROR_INVALID_VALUE:
 * pvalue NULL; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetLimit(size_t* pvalue, CUlimit limit);
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value);

/* What the current context's kernels would rather have of a cache that is shared memory, too.
 * CUDA_ERROR_INVALID_VALUE: pconfig NULL, or no such preference; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* pconfig);
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config);

/* The old way to share a context: cuCtxAttach counts one more user of the current context and gives
 * it in *pctx; cuCtxDetach counts one less, and destroys the context with the last. flags: 0.
 * CUDA_ERROR_INVALID_VALUE: pctx NULL, flags not 0; CUDA_ERROR_INVALID_CONTEXT: also a primary
 * context given to cuCtxDetach. */
CUresult CUDAAPI cuCtxAttach(CUcontext* pctx, unsigned int flags);
CUresult CUDAAPI cuCtxDetach(CUcontext ctx);

/* Say when a profiler is to look on; there is none. CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

/* ---- Capture: streams are never captured into graphs, and say so ---- */

typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphNode_st* CUgraphNode;

typedef struct CUgraphEdgeData_st {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
} CUgraphEdgeData;

typedef enum CUstreamCaptureStatus_enum {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;

/* CU_STREAM_CAPTURE_STATUS_NONE in *captureStatus and *captureStatus_out; nothing else is written.
 * CUDA_ERROR_INVALID_VALUE: that is NULL; CUDA_ERROR_INVALID_HANDLE: not a stream;
 * CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context. */
CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        size_t* numDependencies_out);
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream,
                                           CUstreamCaptureStatus* captureStatus_out,
                                           cuuint64_t* id_out, CUgraph* graph_out,
                                           const CUgraphNode** dependencies_out,
                                           const CUgraphEdgeData** edgeData_out,
                                           size_t* numDependencies_out);
#else
CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out,
                                        size_t* numDependencies_out);
#endif

/* Gives the calling thread's mode in *mode, and takes the one there for it. At first it is
 * CU_STREAM_CAPTURE_MODE_GLOBAL. CUDA_ERROR_INVALID_VALUE: mode NULL, or none of them. */
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);

#endif
