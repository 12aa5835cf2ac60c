/* Part of cuda_runtime_api.h, which includes it: libraries, kernels, their launches and their
 * occupancy, as in cuda_libraries.h, cuda_modules.h and cuda_occupancy.h. */
#include "../cuda_runtime_api.h"

#ifndef WHERRY_CUDA_RUNTIME_KERNELS_H
#define WHERRY_CUDA_RUNTIME_KERNELS_H

#if defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaLaunchCooperativeKernel __CUDART_API_PTSZ(cudaLaunchCooperativeKernel)
#define cudaLaunchKernel __CUDART_API_PTSZ(cudaLaunchKernel)
#define cudaLaunchKernelExC __CUDART_API_PTSZ(cudaLaunchKernelExC)
#endif

typedef struct CUlib_st* cudaLibrary_t;
typedef struct CUkern_st* cudaKernel_t;
typedef struct CUfunc_st* cudaFunction_t;

/* Sizes of a grid in blocks, and of a block in threads. */
#ifndef __VECTOR_TYPES_H__
struct dim3 {
  unsigned int x;
  unsigned int y;
  unsigned int z;
#ifdef __cplusplus
  constexpr dim3(unsigned int its_x = 1, unsigned int its_y = 1, unsigned int its_z = 1)
      : x(its_x), y(its_y), z(its_z) {}
#endif
};
typedef struct dim3 dim3;
#endif

enum cudaJitOption {
  cudaJitMaxRegisters = 0,
  cudaJitThreadsPerBlock = 1,
  cudaJitWallTime = 2,
  cudaJitInfoLogBuffer = 3,
  cudaJitInfoLogBufferSizeBytes = 4,
  cudaJitErrorLogBuffer = 5,
  cudaJitErrorLogBufferSizeBytes = 6,
  cudaJitOptimizationLevel = 7,
  cudaJitFallbackStrategy = 10,
  cudaJitGenerateDebugInfo = 11,
  cudaJitLogVerbose = 12,
  cudaJitGenerateLineInfo = 13,
  cudaJitCacheMode = 14
};
enum cudaLibraryOption {
  cudaLibraryHostUniversalFunctionAndDataTable = 0,
  cudaLibraryBinaryIsPreserved = 1
};

/* Each is the function of cuda_libraries.h with the same name, with its errors;
 * cudaErrorSymbolNotFound is CUDA_ERROR_NOT_FOUND. */
cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* fileName,
                                              enum cudaJitOption* jitOptions,
                                              void** jitOptionsValues, unsigned int numJitOptions,
                                              enum cudaLibraryOption* libraryOptions,
                                              void** libraryOptionValues,
                                              unsigned int numLibraryOptions);
cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t* library, const void* code,
                                          enum cudaJitOption* jitOptions, void** jitOptionsValues,
                                          unsigned int numJitOptions,
                                          enum cudaLibraryOption* libraryOptions,
                                          void** libraryOptionValues,
                                          unsigned int numLibraryOptions);
cudaError_t CUDARTAPI cudaLibraryUnload(cudaLibrary_t library);
cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t* pKernel, cudaLibrary_t library,
                                           const char* name);
cudaError_t CUDARTAPI cudaLibraryGetGlobal(void** dptr, size_t* bytes, cudaLibrary_t library,
                                           const char* name);
cudaError_t CUDARTAPI cudaLibraryGetManaged(void** dptr, size_t* bytes, cudaLibrary_t library,
                                            const char* name);
cudaError_t CUDARTAPI cudaLibraryGetUnifiedFunction(void** fptr, cudaLibrary_t library,
                                                    const char* symbol);

/* ---- Kernels ----
 *
 * `func` is a cudaKernel_t of a library, or the address of a wherryGridKernel (wherry.h) of the
 * program or of a library that the program is linked with or has loaded. Such a library stays
 * loaded from then on. Such a kernel must be exported (by a program: with -rdynamic) and must be
 * declared with WHERRY_KERNEL_PARAMS, which distinguishes it from the stubs that the CUDA compiler
 * leaves in programs for kernels of GPUs.
 *
 * Errors of the functions of this section:
 * - cudaErrorInvalidDeviceFunction: func is no such kernel (for other code the log says so once).
 * - The errors of cuModuleLoad, if the code cannot be loaded on devices. */

/* Returns the kernel whose code is at entryFuncAddr; the same handle each time.
 * Errors:
 * - cudaErrorInvalidValue: kernelPtr is NULL. */
cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr);
/* Returns that kernel as a function of the current context, for cuda_modules.h.
 * Errors:
 * - cudaErrorInvalidValue: functionPtr is NULL. */
cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr);

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  size_t constSizeBytes;
  size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int cacheModeCA;
  int maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
  int clusterDimMustBeSet;
  int requiredClusterWidth;
  int requiredClusterHeight;
  int requiredClusterDepth;
  int clusterSchedulingPolicyPreference;
  int nonPortableClusterSizeAllowed;
  int reserved[16];
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeClusterDimMustBeSet = 10,
  cudaFuncAttributeRequiredClusterWidth = 11,
  cudaFuncAttributeRequiredClusterHeight = 12,
  cudaFuncAttributeRequiredClusterDepth = 13,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
  cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
  cudaFuncAttributeMax
};

/* As cuFuncGetAttribute (all attributes at once), cuFuncSetAttribute, cuFuncSetCacheConfig,
 * cuFuncGetName and cuFuncGetParamInfo, on the current device.
 * Errors:
 * - cudaErrorInvalidValue: a pointer is NULL, and as there. */
cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes* attr, const void* func);
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* func, enum cudaFuncAttribute attr,
                                           int value);
cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void* func, enum cudaFuncCache cacheConfig);
cudaError_t CUDARTAPI cudaFuncGetName(const char** name, const void* func);
cudaError_t CUDARTAPI cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                           size_t* paramSize);

typedef enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributePriority = 8
} cudaLaunchAttributeID;
typedef union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
  int priority;
  struct {
    unsigned int x;
    unsigned int y;
    unsigned int z;
  } clusterDim;
  struct {
    void* bytes;
    int value;
  } other; /* sets the alignment and size of CUDA's union */
} cudaLaunchAttributeValue;
typedef struct cudaLaunchAttribute_st {
  cudaLaunchAttributeID id;
  char pad[8 - sizeof(cudaLaunchAttributeID)];
  cudaLaunchAttributeValue val;
} cudaLaunchAttribute;
typedef struct cudaLaunchConfig_st {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned int numAttrs;
} cudaLaunchConfig_t;

/* As cuLaunchKernel and cuLaunchKernelEx: run the kernel for all threads of the grid on the
 * stream's device; asynchronous. args[i] points to parameter i, which is copied before the call
 * returns.
 * Errors:
 * - cudaErrorInvalidConfiguration: a dimension is 0 or above the device's limit, or too many
 *   threads.
 * - cudaErrorInvalidValue: too many bytes of parameters or shared memory, config is NULL, or
 *   attributes without a list.
 * - cudaErrorNotSupported: any attribute except cudaLaunchAttributeIgnore and
 *   cudaLaunchAttributeCooperative; nothing runs.
 * - cudaErrorInvalidResourceHandle: not a stream. */
cudaError_t CUDARTAPI cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                       size_t sharedMem, cudaStream_t stream);
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func,
                                          void** args);

/* As cuLaunchCooperativeKernel, with the errors above, and:
 * - cudaErrorCooperativeLaunchTooLarge: more blocks than the device has workers. */
cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void* func, dim3 gridDim, dim3 blockDim,
                                                  void** args, size_t sharedMem,
                                                  cudaStream_t stream);

#define cudaOccupancyDefault 0x00
#define cudaOccupancyDisableCachingOverride 0x01

/* As the functions of cuda_occupancy.h with these names, on the current device. */
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks,
                                                                    const void* func, int blockSize,
                                                                    size_t dynamicSMemSize);
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize, unsigned int flags);
cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize,
                                                                const void* func, int numBlocks,
                                                                int blockSize);

#endif
