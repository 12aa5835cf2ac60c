/* Part of cuda.h, which includes it: modules, which are shared objects with kernels and variables,
 * and launches of those kernels. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_MODULES_H
#define WHERRY_CUDA_MODULES_H

typedef enum CUjit_option_enum {
  CU_JIT_MAX_REGISTERS = 0,
  CU_JIT_THREADS_PER_BLOCK = 1,
  CU_JIT_WALL_TIME = 2,
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_OPTIMIZATION_LEVEL = 7,
  CU_JIT_TARGET_FROM_CUCONTEXT = 8,
  CU_JIT_TARGET = 9,
  CU_JIT_FALLBACK_STRATEGY = 10,
  CU_JIT_GENERATE_DEBUG_INFO = 11,
  CU_JIT_LOG_VERBOSE = 12,
  CU_JIT_GENERATE_LINE_INFO = 13,
  CU_JIT_CACHE_MODE = 14
} CUjit_option;

typedef enum CUmoduleLoadingMode_enum {
  CU_MODULE_EAGER_LOADING = 0x1,
  CU_MODULE_LAZY_LOADING = 0x2
} CUmoduleLoadingMode;

typedef enum CUfunction_attribute_enum {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
  CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
  CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
  CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
  CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
  CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
  CU_FUNC_ATTRIBUTE_MAX
} CUfunction_attribute;

typedef enum CUlaunchAttributeID_enum {
  CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  CU_LAUNCH_ATTRIBUTE_PRIORITY = 8
} CUlaunchAttributeID;
typedef union CUlaunchAttributeValue_union {
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
} CUlaunchAttributeValue;
typedef struct CUlaunchAttribute_st {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
} CUlaunchAttribute;
typedef struct CUlaunchConfig_st {
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
} CUlaunchConfig;

#define CU_LAUNCH_PARAM_END_AS_INT 0x00
#define CU_LAUNCH_PARAM_END ((void*)CU_LAUNCH_PARAM_END_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT 0x01
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void*)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT 0x02
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void*)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT)

/* Loads the shared object at fname. Its kernels are functions of type wherryGridKernel (wherry.h).
 * All its writable variables become managed memory, with the values that the loader and the
 * constructors gave them. Its code runs at the same addresses on all devices, so neither it nor the
 * libraries that are loaded for it may have thread-local variables. Modules stay loaded until the
 * process ends. A module that is loaded again, in any context, is the same one with the same
 * variables. So is a shared object that the program has loaded or is linked with; of its variables
 * only those with WHERRY_MANAGED become managed memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_FILE_NOT_FOUND.
 * - CUDA_ERROR_NO_BINARY_FOR_GPU: PTX, a cubin or a fat binary.
 * - CUDA_ERROR_INVALID_IMAGE: not an image of any of these kinds.
 * - CUDA_ERROR_SHARED_OBJECT_INIT_FAILED: it cannot be loaded here, or not at its address in a
 *   device.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no space for its variables.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * For all but the first two and the last, the log says why. */
CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* fname);

/* Load a shared object that is in memory: the bytes of the whole file. Options are for compilers,
 * and are ignored. Each such call loads another module. Errors are those of cuModuleLoad. */
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image);
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                    CUjit_option* options, void** optionValues);
/* Not supported: fat binaries are for GPUs.
 * Errors:
 * - CUDA_ERROR_NO_BINARY_FOR_GPU: always, if the arguments are valid.
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin);

/* Ends the handle, and the handles of its functions. The code and its variables stay loaded for
 * work that uses them.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE: not a module.
 * - CUDA_ERROR_NOT_PERMITTED: it belongs to a library.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuModuleUnload(CUmodule hmod);

/* Returns CU_MODULE_EAGER_LOADING.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: mode is NULL. */
CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode);

/* Returns a kernel of the module by its name; the same handle each time.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a module.
 * - CUDA_ERROR_NOT_FOUND: it exports no such function.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name);

/* Returns the address and the size, in bytes, of an exported variable of the module; either pointer
 * may be NULL.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: both pointers are NULL, or name is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a module.
 * - CUDA_ERROR_NOT_FOUND: it has no variable of that name, or the variable is not managed memory,
 *   so that copies would not reach the devices' variables (the log says so).
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                   const char* name);

/* Returns an attribute of a kernel: the most threads that a block may have; the device's compute
 * capability for the versions; 0 for all others.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pi is NULL, or an unknown attribute.
 * - CUDA_ERROR_INVALID_HANDLE: not a function.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc);
/* Sets an attribute, without effect: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES or
 * CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT. Kernels have no shared memory; they are only
 * told its size.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: other attributes, or a negative size.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
/* Accepts a preference for the cache, without effect.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: an unknown preference.
 * - CUDA_ERROR_INVALID_HANDLE.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config);
/* Return the function's module and its name, which is valid as long as the handle. Errors are those
 * of cuFuncGetAttribute. */
CUresult CUDAAPI cuFuncGetModule(CUmodule* hmod, CUfunction hfunc);
CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction hfunc);

typedef enum CUfunctionLoadingState_enum {
  CU_FUNCTION_LOADING_STATE_UNLOADED = 0,
  CU_FUNCTION_LOADING_STATE_LOADED = 1,
  CU_FUNCTION_LOADING_STATE_MAX
} CUfunctionLoadingState;

/* cuFuncIsLoaded returns CU_FUNCTION_LOADING_STATE_LOADED: a function is loaded as soon as it has a
 * handle. cuFuncLoad does nothing.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: state is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a function.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function);
CUresult CUDAAPI cuFuncLoad(CUfunction function);

/* Runs f, a function or a kernel of a library, for all threads of the grid on the stream's device,
 * split across its workers, in stream order; asynchronous. The parameters are copied before the
 * call returns. kernelParams[i] points to parameter i, or `extra` names a buffer that contains all
 * parameters in order, each at a multiple of its size up to 16. WHERRY_KERNEL_PARAMS in wherry.h
 * declares their number and sizes. Together they take at most 32,764 bytes. Blocks do not
 * synchronize.
 * sharedMemBytes is only passed on to the kernel.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a dimension is 0 or above the device's limit; too many threads in a
 *   block, or more threads in all than a size_t can count; both kernelParams and extra; `extra` for
 *   a kernel that declares no parameters, or of another size than declared; or too many bytes.
 * - CUDA_ERROR_INVALID_HANDLE: not a function, not a stream, or a stream of another context than
 *   the function's.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * - The context's error. */
CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                unsigned int gridDimZ, unsigned int blockDimX,
                                unsigned int blockDimY, unsigned int blockDimZ,
                                unsigned int sharedMemBytes, CUstream hStream, void** kernelParams,
                                void** extra);
/* Launches a kernel like cuLaunchKernel, in a grid whose blocks can wait for each other: each has a
 * worker of its own, and all run at once. Such launches run one by one on a device. In addition:
 * - CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: more blocks than the device has workers. */
CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
                                           unsigned int gridDimY, unsigned int gridDimZ,
                                           unsigned int blockDimX, unsigned int blockDimY,
                                           unsigned int blockDimZ, unsigned int sharedMemBytes,
                                           CUstream hStream, void** kernelParams);
/* As cuLaunchKernel. The supported attributes are CU_LAUNCH_ATTRIBUTE_IGNORE and, for a launch as
 * by cuLaunchCooperativeKernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE. In addition:
 * - CUDA_ERROR_NOT_SUPPORTED: any other attribute; nothing runs.
 * - CUDA_ERROR_INVALID_VALUE: config is NULL, or attributes without a list. */
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                                  void** extra);

#endif
