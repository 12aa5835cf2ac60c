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

/* ---- Handles and plain values ---- */

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

/* A device address. For managed memory it is also the host's address of the same bytes. */
#if defined(__LP64__)
typedef unsigned long long CUdeviceptr_v2;
#else
typedef unsigned int CUdeviceptr_v2;
#endif
typedef CUdeviceptr_v2 CUdeviceptr;

typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUevent_st* CUevent;
typedef struct CUstream_st* CUstream;
typedef struct CUarray_st* CUarray;
typedef struct CUmemPoolHandle_st* CUmemoryPool;
typedef struct CUgreenCtx_st* CUgreenCtx;

#ifndef CU_UUID_HAS_BEEN_DEFINED
#define CU_UUID_HAS_BEEN_DEFINED
typedef struct CUuuid_st {
  char bytes[16];
} CUuuid;
#endif

/* Runs on a thread of the library, in stream order. It must not call functions of this API. */
typedef void(CUDA_CB* CUhostFn)(void* userData);

/* Device numbers that are not devices, where an answer or argument can be one. */
#define CU_DEVICE_CPU ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

/* The default streams by name: the context's, which orders itself with the context's blocking
 * streams (this is what the NULL stream means), and the calling thread's own (what it means with
 * CUDA_API_PER_THREAD_DEFAULT_STREAM). */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* ---- Results ---- */

typedef enum cudaError_enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_PROFILER_DISABLED = 5,
  CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6,
  CUDA_ERROR_PROFILER_ALREADY_STARTED = 7,
  CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_DEVICE_NOT_LICENSED = 102,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNMAP_FAILED = 206,
  CUDA_ERROR_ARRAY_IS_MAPPED = 207,
  CUDA_ERROR_ALREADY_MAPPED = 208,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ALREADY_ACQUIRED = 210,
  CUDA_ERROR_NOT_MAPPED = 211,
  CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212,
  CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
  CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
  CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
  CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225,
  CUDA_ERROR_CONTAINED = 226,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
  CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_LOSSY_QUERY = 402,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_TOO_MANY_PEERS = 711,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
  CUDA_ERROR_MPS_RPC_FAILURE = 806,
  CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
  CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
  CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
  CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  CUDA_ERROR_CDP_NOT_SUPPORTED = 811,
  CUDA_ERROR_CDP_VERSION_MISMATCH = 812,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  CUDA_ERROR_TIMEOUT = 909,
  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
  CUDA_ERROR_EXTERNAL_DEVICE = 911,
  CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,
  CUDA_ERROR_FUNCTION_NOT_LOADED = 913,
  CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
  CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
  CUDA_ERROR_KEY_ROTATION = 916,
  CUDA_ERROR_UNKNOWN = 999
} CUresult;

/* Runs on a thread of the library, in stream order. It must not call functions of this API. */
typedef void(CUDA_CB* CUstreamCallback)(CUstream hStream, CUresult status, void* userData);

/* ---- Devices ---- */

/* What cuDeviceGetAttribute can tell. Devices here are not GPUs: attributes of textures, caches and
 * instruction sets answer 0 or a harmless minimum. */
typedef enum CUdevice_attribute_enum {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT = 14,
  CU_DEVICE_ATTRIBUTE_GPU_OVERLAP = 15,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH = 21,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH = 22,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT = 23,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH = 24,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT = 25,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH = 26,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH = 27,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT = 28,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS = 29,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_WIDTH = 27,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_HEIGHT = 28,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_ARRAY_NUMSLICES = 29,
  CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT = 30,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
  CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_TCC_DRIVER = 35,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH = 42,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS = 43,
  CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER = 44,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH = 45,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT = 46,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE = 47,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE = 48,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE = 49,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT = 51,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH = 52,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH = 53,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS = 54,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH = 55,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH = 56,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT = 57,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH = 58,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT = 59,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH = 60,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH = 61,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS = 62,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH = 63,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT = 64,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS = 65,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH = 66,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH = 67,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS = 68,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH = 69,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH = 70,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT = 71,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH = 72,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH = 73,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT = 74,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH = 77,
  CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
  CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED = 79,
  CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED = 80,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
  CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID = 85,
  CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86,
  CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
  CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED = 90,
  CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
  CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 = 92,
  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1 = 93,
  CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1 = 94,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH = 96,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
  CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
  CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED = 104,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED = 105,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED = 107,
  CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE = 108,
  CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE = 109,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
  CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
  CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED = 112,
  CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
  CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
  CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES = 119,
  CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
  CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED = 121,
  CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
  CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
  CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
  CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125,
  CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT = 126,
  CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128,
  CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS = 129,
  CU_DEVICE_ATTRIBUTE_NUMA_CONFIG = 130,
  CU_DEVICE_ATTRIBUTE_NUMA_ID = 131,
  CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED = 132,
  CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134,
  CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED = 135,
  CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK = 136,
  CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH = 137,
  CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED = 138,
  CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID = 139,
  CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID = 140,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142,
  CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143,
  CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED = 144,
  CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 145,
  CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED = 146,
  CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED = 147,
  CU_DEVICE_ATTRIBUTE_MAX
} CUdevice_attribute;

typedef enum CUcomputemode_enum {
  CU_COMPUTEMODE_DEFAULT = 0,
  CU_COMPUTEMODE_PROHIBITED = 2,
  CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
} CUcomputemode;

typedef enum CUdeviceNumaConfig_enum {
  CU_DEVICE_NUMA_CONFIG_NONE = 0,
  CU_DEVICE_NUMA_CONFIG_NUMA_NODE
} CUdeviceNumaConfig;

/* ---- Contexts and streams ---- */

/* How a thread waits. Accepted and kept, without effect: waiting threads sleep. */
typedef enum CUctx_flags_enum {
  CU_CTX_SCHED_AUTO = 0x00,
  CU_CTX_SCHED_SPIN = 0x01,
  CU_CTX_SCHED_YIELD = 0x02,
  CU_CTX_SCHED_BLOCKING_SYNC = 0x04,
  CU_CTX_BLOCKING_SYNC = 0x04,
  CU_CTX_SCHED_MASK = 0x07,
  CU_CTX_MAP_HOST = 0x08,
  CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
  CU_CTX_COREDUMP_ENABLE = 0x20,
  CU_CTX_USER_COREDUMP_ENABLE = 0x40,
  CU_CTX_SYNC_MEMOPS = 0x80,
  CU_CTX_FLAGS_MASK = 0xFF
} CUctx_flags;

typedef enum CUexecAffinityType_enum {
  CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0,
  CU_EXEC_AFFINITY_TYPE_MAX
} CUexecAffinityType;

typedef struct CUexecAffinitySmCount_st {
  unsigned int val;
} CUexecAffinitySmCount_v1;
typedef CUexecAffinitySmCount_v1 CUexecAffinitySmCount;

typedef struct CUexecAffinityParam_st {
  CUexecAffinityType type;
  union {
    CUexecAffinitySmCount smCount;
  } param;
} CUexecAffinityParam_v1;
typedef CUexecAffinityParam_v1 CUexecAffinityParam;

typedef enum CUcigDataType_enum {
  CIG_DATA_TYPE_D3D12_COMMAND_QUEUE = 0x1,
  CIG_DATA_TYPE_NV_BLOB = 0x2
} CUcigDataType;

typedef struct CUctxCigParam_st {
  CUcigDataType sharedDataType;
  void* sharedData;
} CUctxCigParam;

typedef struct CUctxCreateParams_st {
  CUexecAffinityParam* execAffinityParams;
  int numExecAffinityParams;
  CUctxCigParam* cigParams;
} CUctxCreateParams;

typedef enum CUstream_flags_enum {
  CU_STREAM_DEFAULT = 0x0,
  CU_STREAM_NON_BLOCKING = 0x1
} CUstream_flags;

typedef enum CUevent_flags_enum {
  CU_EVENT_DEFAULT = 0x0,
  CU_EVENT_BLOCKING_SYNC = 0x1,
  CU_EVENT_DISABLE_TIMING = 0x2,
  CU_EVENT_INTERPROCESS = 0x4
} CUevent_flags;

typedef enum CUevent_record_flags_enum {
  CU_EVENT_RECORD_DEFAULT = 0x0,
  CU_EVENT_RECORD_EXTERNAL = 0x1
} CUevent_record_flags;

typedef enum CUevent_wait_flags_enum {
  CU_EVENT_WAIT_DEFAULT = 0x0,
  CU_EVENT_WAIT_EXTERNAL = 0x1
} CUevent_wait_flags;

/* ---- Memory ---- */

typedef enum CUmemAttach_flags_enum {
  CU_MEM_ATTACH_GLOBAL = 0x1,
  CU_MEM_ATTACH_HOST = 0x2,
  CU_MEM_ATTACH_SINGLE = 0x4
} CUmemAttach_flags;

typedef enum CUmemorytype_enum {
  CU_MEMORYTYPE_HOST = 0x01,
  CU_MEMORYTYPE_DEVICE = 0x02,
  CU_MEMORYTYPE_ARRAY = 0x03,
  CU_MEMORYTYPE_UNIFIED = 0x04
} CUmemorytype;

typedef enum CUarray_format_enum {
  CU_AD_FORMAT_UNSIGNED_INT8 = 0x01,
  CU_AD_FORMAT_UNSIGNED_INT16 = 0x02,
  CU_AD_FORMAT_UNSIGNED_INT32 = 0x03,
  CU_AD_FORMAT_SIGNED_INT8 = 0x08,
  CU_AD_FORMAT_SIGNED_INT16 = 0x09,
  CU_AD_FORMAT_SIGNED_INT32 = 0x0a,
  CU_AD_FORMAT_HALF = 0x10,
  CU_AD_FORMAT_FLOAT = 0x20
} CUarray_format;

typedef struct CUDA_ARRAY_DESCRIPTOR_st {
  size_t Width;
  size_t Height;
  CUarray_format Format;
  unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v2;
typedef CUDA_ARRAY_DESCRIPTOR_v2 CUDA_ARRAY_DESCRIPTOR;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
  size_t Width;
  size_t Height;
  size_t Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v2;
typedef CUDA_ARRAY3D_DESCRIPTOR_v2 CUDA_ARRAY3D_DESCRIPTOR;

typedef enum CUmem_advise_enum {
  CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
  CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
  CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
  CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
  CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
  CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6
} CUmem_advise;

typedef enum CUmem_range_attribute_enum {
  CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
  CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4,
  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 5,
  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 6,
  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
} CUmem_range_attribute;

typedef enum CUpointer_attribute_enum {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
  CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
  CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
  CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
  CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
  CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
  CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
  CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21
} CUpointer_attribute;

typedef enum CUmemLocationType_enum {
  CU_MEM_LOCATION_TYPE_INVALID = 0x0,
  CU_MEM_LOCATION_TYPE_NONE = 0x0,
  CU_MEM_LOCATION_TYPE_DEVICE = 0x1,
  CU_MEM_LOCATION_TYPE_HOST = 0x2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 0x3,
  CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 0x4,
  CU_MEM_LOCATION_TYPE_MAX = 0x7FFFFFFF
} CUmemLocationType;

typedef struct CUmemLocation_st {
  CUmemLocationType type;
  int id;
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

typedef enum CUmemAllocationHandleType_enum {
  CU_MEM_HANDLE_TYPE_NONE = 0x0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
  CU_MEM_HANDLE_TYPE_WIN32 = 0x2,
  CU_MEM_HANDLE_TYPE_WIN32_KMT = 0x4,
  CU_MEM_HANDLE_TYPE_FABRIC = 0x8,
  CU_MEM_HANDLE_TYPE_MAX = 0x7FFFFFFF
} CUmemAllocationHandleType;

typedef enum CUfunc_cache_enum {
  CU_FUNC_CACHE_PREFER_NONE = 0x00,
  CU_FUNC_CACHE_PREFER_SHARED = 0x01,
  CU_FUNC_CACHE_PREFER_L1 = 0x02,
  CU_FUNC_CACHE_PREFER_EQUAL = 0x03
} CUfunc_cache;

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
 * programming guide says: numbers or uuids, up to the first that is none. With CUDA_LAUNCH_BLOCKING=1
 * every launch waits for its kernel, and answers what became of it. CUDA_ERROR_INVALID_VALUE:
 * Flags not 0, or a malformed environment variable (a log line on stderr shows where);
 * CUDA_ERROR_NO_DEVICE: CUDA_VISIBLE_DEVICES leaves none; CUDA_ERROR_NOT_PERMITTED,
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
 * it is booted again, whichever devices the process sees. CUDA_ERROR_INVALID_VALUE: uuid NULL; CUDA_ERROR_INVALID_DEVICE. */
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

/* Counts one user less. The last one closes the context: waits for its unfinished work, destroys its
 * streams and events. Who has it current gets CUDA_ERROR_CONTEXT_IS_DESTROYED until it is retained again, by
 * the same handle. Managed allocations survive.
 * CUDA_ERROR_INVALID_CONTEXT: it has no users; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev);

/* Starts a fresh device process and clears the error of the device's primary context. Work that has
 * not finished is thrown away, that of other contexts of the device too: these then fail with
 * CUDA_ERROR_LAUNCH_FAILED, and stay failed until they are destroyed. Streams and events of the primary
 * context are destroyed. Unlike CUDA, managed allocations survive, with their contents and advice. The
 * number of users stays as it was; there may be none.
 * CUDA_ERROR_INVALID_DEVICE; CUDA_ERROR_OPERATING_SYSTEM: the new process could not be started (a
 * log line says why, and the device is unusable until a later reset succeeds). */
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev);

/* *active: 1 if the primary context has users, else 0. *flags: its CUctx_flags.
 * CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active);

/* ---- Contexts: each owns streams and events; memory belongs to none ---- */

/* Creates a context on the device and makes it the calling thread's current one, on top of its
 * stack. flags: CUctx_flags. ctxCreateParams: NULL; execution affinity and graphics interoperation
 * do not exist here.
 * CUDA_ERROR_INVALID_VALUE: pctx NULL or unknown flags; CUDA_ERROR_INVALID_DEVICE;
 * CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, CUDA_ERROR_NOT_SUPPORTED: parameters that ask for one of the
 * two; CUDA_ERROR_LAUNCH_FAILED: the device's process has ended, cuDevicePrimaryCtxReset starts
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

/* ---- Memory ---- */

/* Allocates `bytesize` bytes of managed memory, valid at one address on the host and on every
 * device; zero at first. flags: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST (which here mean the
 * same: devices that access concurrently need no attachment). Takes address space only; pages come
 * with the first touch. CUDA_ERROR_INVALID_VALUE: dptr NULL, bytesize 0, other flags;
 * CUDA_ERROR_OUT_OF_MEMORY: the arena has no such gap, or all managed memory together would not fit
 * into all pools (WHERRY_HOST_CAPACITY); CUDA_ERROR_INVALID_CONTEXT. On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags);

/* Allocates `bytesize` bytes in the pool of the current context's device, where they stay until they are
 * freed; zero at first. That device's kernels alone can touch them: for the host it is a fault that ends
 * in SIGBUS or SIGSEGV with a line in the log, for a kernel elsewhere, unless cuCtxEnablePeerAccess lets it,
 * CUDA_ERROR_ILLEGAL_ADDRESS. Managed memory leaves the pool to make room. Belongs to the process, not to the context, and survives
 * cuDevicePrimaryCtxReset with its contents.
 * CUDA_ERROR_INVALID_VALUE: dptr NULL or bytesize 0; CUDA_ERROR_OUT_OF_MEMORY: the pool is too small, or
 * full of what cannot leave it; CUDA_ERROR_INVALID_CONTEXT. On errors *dptr is 0. */
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize);

/* Not supported: devices here have no textures. CUDA_ERROR_NOT_SUPPORTED; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray);
CUresult CUDAAPI cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray);

/* Frees an allocation, given its first address; 0 does nothing. Needs no context. Waits for work that
 * was given to any stream before, which may still use it. Its pages leave every pool at once, and a
 * later touch by anybody is a fault that ends in SIGSEGV or SIGBUS.
 * CUDA_ERROR_INVALID_VALUE: dptr is not the first address of a live allocation. */
CUresult CUDAAPI cuMemFree(CUdeviceptr dptr);

/* Bytes of the current context's device pool: unused, and in all. Another processor may change the
 * first at any time. CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total);

/* Gives first address and size, in bytes as asked for, of the allocation that contains dptr. Either
 * pointer may be NULL. CUDA_ERROR_NOT_FOUND: dptr lies in no live allocation (what was asked for
 * becomes 0); CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr);

/* ---- Advice: what the program says about the use of managed memory ----
 *
 * Advice is a hint: it changes where pages are and how often a processor has to wait for them, never
 * what they contain. It is kept per page of 4 KiB, belongs to the process, and ends when the memory
 * is freed. A range is `count` bytes from devPtr, count not 0, inside one live managed allocation. */

/* Says something about all pages that the range touches.
 *   SET_READ_MOSTLY           it is mostly read: a read by any processor makes a read-only copy in that
 *                             processor's memory, and a write leaves only the writer's.
 *   UNSET_READ_MOSTLY         takes that back: one copy remains, the one at the preferred location if
 *                             there is one, and nothing makes others until it is set again.
 *   SET_PREFERRED_LOCATION    it should be in the memory of `location`. Nothing moves at once; pages
 *                             that are there stay there, mapped by whoever touches them.
 *   UNSET_PREFERRED_LOCATION  takes that back.
 *   SET_ACCESSED_BY           `location`, a device or the host, uses it: the pages are always mapped
 *                             there, wherever they are. Nothing moves.
 *   UNSET_ACCESSED_BY         takes that back for `location`.
 * READ_MOSTLY goes before PREFERRED_LOCATION, and both before ACCESSED_BY of the same processor.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a node of the
 * host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling thread at
 * this call. READ_MOSTLY and UNSET_PREFERRED_LOCATION ignore which one it is.
 * With CUDA 12 names, `device` stands for location: an ordinal or CU_DEVICE_CPU.
 *
 * CUDA_ERROR_INVALID_VALUE: not a range, unknown advice, a location of no such type (with any
 * advice), a device or node that does not exist, or ACCESSED_BY with a HOST_NUMA location;
 * CUDA_ERROR_INVALID_DEVICE: SET_PREFERRED_LOCATION or SET_ACCESSED_BY with a device that has no
 * CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, or, where `device` is a number, one that does not
 * exist; CUDA_ERROR_INVALID_CONTEXT. On errors nothing changes. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device);
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location);
#else
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUmemLocation location);
#endif

/* Gives in data[0, dataSize) one attribute of the pages from devPtr's on, as many as count rounded up to
 * whole pages. All are 32-bit integers, dataSize 4 bytes; only ACCESSED_BY is an array of them, dataSize
 * any multiple of 4 but 0.
 *   READ_MOSTLY             1: all pages have it set; else 0.
 *   PREFERRED_LOCATION      what all pages have in common: a device, or CU_DEVICE_CPU for the host and
 *                           its nodes; CU_DEVICE_INVALID: there is no such, or a page has none.
 *   PREFERRED_LOCATION_TYPE the same as a CUmemLocationType; all pages must agree on the node, too.
 *                           CU_MEM_LOCATION_TYPE_INVALID: there is none.
 *   PREFERRED_LOCATION_ID   its id: a device, a node, CU_DEVICE_CPU for the host as a whole, else
 *                           CU_DEVICE_INVALID.
 *   ACCESSED_BY             the processors that have it set for all pages, devices before CU_DEVICE_CPU,
 *                           as many as fit; CU_DEVICE_INVALID in the rest.
 *   LAST_PREFETCH_LOCATION, _TYPE, _ID
 *                           as PREFERRED_LOCATION, of the location that the program last asked to
 *                           prefetch to. It does not say whether the prefetch has happened yet.
 * Where pages are at this moment is another question: see wherryPageInfo.
 * CUDA_ERROR_INVALID_VALUE: not a range, data NULL, an unknown attribute or a wrong size, and nothing
 * is written; CUDA_ERROR_INVALID_CONTEXT. As with a real driver a count that leads past the last
 * address is no error: it asks of no pages, of which READ_MOSTLY and ACCESSED_BY are all true. */
CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t dataSize,
                                        CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                        size_t count);

/* Gives numAttributes attributes of one range: attributes[i] in data[i][0, dataSizes[i]). Errors as
 * cuMemRangeGetAttribute for each of them, then nothing is written; CUDA_ERROR_INVALID_VALUE also: an
 * array NULL, or numAttributes 0. */
CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                         CUmem_range_attribute* attributes, size_t numAttributes,
                                         CUdeviceptr devPtr, size_t count);

/* ---- Prefetching: managed memory that moves ahead of its use ----
 *
 * Nothing has to be prefetched: it saves the faults that would have moved the pages later. Pages may be
 * touched by anybody at any time, also while they move. A range is as for advice, and its pages are all
 * that it touches. Every call returns without waiting for data; the work begins when that given to the
 * stream before has finished, and the work given after waits for it.
 *
 * True of every function of this section: CUDA_ERROR_INVALID_DEVICE: a destination, or the stream's
 * device, that has no CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS; CUDA_ERROR_INVALID_HANDLE: not a
 * stream; CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context; the error of the
 * stream's context. */

/* Has the pages of the range moved to `location`, created and mapped there if they are nowhere yet.
 * Read-mostly pages get a copy there instead, a preferred location elsewhere changes nothing, and who is
 * advised to access them has its mappings follow. If the destination is full others leave it; what finds
 * no room stays where it is. flags: 0.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a node of the
 * host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling thread at
 * this call, whatever id is. With CUDA 12 names, `dstDevice` stands for location: an ordinal or
 * CU_DEVICE_CPU.
 *
 * CUDA_ERROR_INVALID_VALUE: not a range, flags not 0, a location of no such type, or a node that does
 * not exist; CUDA_ERROR_INVALID_DEVICE: also a device that does not exist, if all else is right;
 * CUDA_ERROR_OUT_OF_MEMORY: more than the host may hold at all (WHERRY_HOST_CAPACITY). On errors nothing changes. As with a real driver a count that leads past the last address is no error,
 * and prefetches nothing. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream);
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream);
#else
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream);
#endif

/* The same for `count` ranges of sizes[i] bytes from dptrs[i], in one piece of work. prefetchLocs[k] is the
 * location of the ranges from number prefetchLocIdxs[k] on, up to the next one's; the first number is 0.
 * A number that is not larger than the one before it is skipped with all that follow, as by a real driver.
 * flags: 0. hStream must not be the context's default stream.
 *
 * CUDA_ERROR_INVALID_VALUE: an array NULL; count or numPrefetchLocs 0, or more locations than ranges; a
 * first number that is not 0, or one that no range has; flags not 0; the context's default stream; a
 * location that is none or does not exist: then nothing changes. Also: a range that is none, and then
 * those before it are prefetched. CUDA_ERROR_OUT_OF_MEMORY: likewise, at the range with which more would
 * go to the host than it may hold at all. */
CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                         CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags,
                                         CUstream hStream);

/* Says of `count` ranges of sizes[i] bytes from dptrs[i] that their contents are not needed any more:
 * until it is written again each byte reads as anything. Only pages that hold nothing but bytes of the
 * range are forgotten. Advice and the last prefetch location stay. flags and hStream as above, and errors
 * as those of cuMemPrefetchBatchAsync without locations. */
CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                        unsigned long long flags, CUstream hStream);

/* Both in one: has the pages at their locations, without the contents that are not needed any more.
 * Arguments and errors as those of cuMemPrefetchBatchAsync. */
CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                   CUmemLocation* prefetchLocs,
                                                   size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                   unsigned long long flags, CUstream hStream);

/* ---- Streams: work of one stream runs in order, that of several at the same time ---- */

/* Creates a stream in the current context. CU_STREAM_DEFAULT: ordered with the context's default
 * stream; CU_STREAM_NON_BLOCKING: not. CUDA_ERROR_INVALID_VALUE: phStream NULL or unknown flags;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags);

/* The same with a priority: lower numbers go first, where there is not room on the device for all
 * that could run. What runs is not interrupted, and 0 is the default. A number out of the range of
 * cuCtxGetStreamPriorityRange is taken for the nearest one in it. */
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority);

/* The range of priorities: 0 and -5. Either pointer may be NULL. CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority);

/* What a stream was created with, default streams included: its priority; its flags; a number that no
 * other stream of the process has, ever; its device; its context (the current one for a default
 * stream). cuStreamGetCtx_v2 gives NULL in *pGreenCtx, which may be NULL: there are no green contexts.
 * CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT: a
 * default stream without a current context. */
CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int* priority);
CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int* flags);
CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long* streamId);
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice* device);
CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext* pctx);
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx);

/* Destroys a stream and returns at once; work that was given to it still finishes.
 * CUDA_ERROR_INVALID_HANDLE: not a stream, a default stream, or destroyed already. */
CUresult CUDAAPI cuStreamDestroy(CUstream hStream);

/* CUDA_SUCCESS: all work of the stream has finished; CUDA_ERROR_NOT_READY: not yet. Both are
 * answers. CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT: a default stream without a
 * current context. */
CUresult CUDAAPI cuStreamQuery(CUstream hStream);

/* Waits until all work given to the stream before this call has finished. Errors as cuStreamQuery
 * and cuCtxSynchronize. */
CUresult CUDAAPI cuStreamSynchronize(CUstream hStream);

/* Calls fn(userData) once, on a thread of the library, after the work given to the stream before
 * and before the work given after. Not called if the context fails first. Several streams of a
 * device share one such thread: a function that waits for another's effect can wait for ever.
 * CUDA_ERROR_INVALID_VALUE: fn NULL; CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData);

/* Calls callback(hStream, status, userData) once, as cuLaunchHostFunc does, and also when the context
 * fails first: status is then its error, else CUDA_SUCCESS. flags must be 0.
 * CUDA_ERROR_INVALID_VALUE: callback NULL or flags not 0; CUDA_ERROR_INVALID_HANDLE;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData,
                                     unsigned int flags);

/* Work given to the stream from now on waits for what hEvent recorded last before this call, in any
 * stream of any context or device; a later recording changes nothing. An event that has never been
 * recorded is not waited for. If the event's context fails first, hStream's context fails, too: what
 * its work would have needed does not exist. Flags must be 0.
 * CUDA_ERROR_INVALID_VALUE: Flags not 0; CUDA_ERROR_INVALID_HANDLE: not a stream, or not an event;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);

/* Says which streams will use a managed allocation on the device, from the turn of this call in the
 * stream on. flags: CU_MEM_ATTACH_GLOBAL, any; CU_MEM_ATTACH_HOST, none; CU_MEM_ATTACH_SINGLE, hStream
 * alone, until it is destroyed and its work has finished: then what was said at the allocation holds
 * again. It is remembered and restricts nothing: devices and the host may use managed memory at the
 * same time here. dptr: the allocation's first address; length: its size as asked for, or 0.
 * CUDA_ERROR_INVALID_VALUE: not a whole allocation, other flags, or CU_MEM_ATTACH_SINGLE with the
 * context's default stream; CUDA_ERROR_INVALID_HANDLE; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags);

/* ---- Events: a moment in a stream, to ask for, wait for and measure from ---- */

/* Creates an event of the current context. Flags: CU_EVENT_DISABLE_TIMING, it has no time to measure
 * with; CU_EVENT_BLOCKING_SYNC, nothing, because every wait here sleeps. CU_EVENT_INTERPROCESS, which
 * goes with CU_EVENT_DISABLE_TIMING alone: other processes may have it, too (cuIpcGetEventHandle).
 * CUDA_ERROR_INVALID_VALUE: phEvent NULL, unknown flags, or CU_EVENT_INTERPROCESS without
 * CU_EVENT_DISABLE_TIMING; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags);

/* Makes the event stand for the work that was given to the stream before this call, in place of what it
 * stood for. Its time is the moment when that work has finished. flags must be 0.
 * CUDA_ERROR_INVALID_VALUE: flags not 0; CUDA_ERROR_INVALID_HANDLE: not an event, not a stream, or
 * they are of different contexts; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);

/* CUDA_SUCCESS: the work that the event stands for has finished, or it was never recorded;
 * CUDA_ERROR_NOT_READY: not yet. CUDA_ERROR_INVALID_HANDLE: not an event, or its context is gone. */
CUresult CUDAAPI cuEventQuery(CUevent hEvent);

/* Waits for the work that the event stands for at this call. Errors as cuEventQuery and
 * cuCtxSynchronize. */
CUresult CUDAAPI cuEventSynchronize(CUevent hEvent);

/* The time from one event to the other in milliseconds, negative if hEnd was first.
 * CUDA_ERROR_INVALID_VALUE: pMilliseconds NULL; CUDA_ERROR_INVALID_HANDLE: one is not an event, was
 * never recorded, or has CU_EVENT_DISABLE_TIMING, or they are of different devices;
 * CUDA_ERROR_NOT_READY: work that one stands for has not finished. */
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd);
#endif

/* Destroys an event and returns at once. Who waits for it still does.
 * CUDA_ERROR_INVALID_HANDLE: not an event, or destroyed already. */
CUresult CUDAAPI cuEventDestroy(CUevent hEvent);

#include "cuda_copies.h"
#include "cuda_device_memory.h"
#include "cuda_host_memory.h"
#include "cuda_ipc.h"
#include "cuda_libraries.h"
#include "cuda_modules.h"
#include "cuda_occupancy.h"
#include "cuda_pointers.h"
#include "cuda_pools.h"
#include "cuda_proc_address.h"
#include "cuda_settings.h"
#include "cuda_virtual_memory.h"

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
