/* Part of cuda.h, which includes it: libraries, which are modules that belong to no context, and
 * their kernels. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_LIBRARIES_H
#define WHERRY_CUDA_LIBRARIES_H

#include "cuda_modules.h"

typedef struct CUlib_st* CUlibrary;
typedef struct CUkern_st* CUkernel;

typedef enum CUlibraryOption_enum {
  CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0,
  CU_LIBRARY_BINARY_IS_PRESERVED = 1,
  CU_LIBRARY_NUM_OPTIONS
} CUlibraryOption;

/* Functions of this file need no current context, unless their comment says so.
 *
 * Load the shared object at fileName, or the one in memory at `code`, like cuModuleLoad and
 * cuModuleLoadData. Options are for compilers and loaders of device code, and are ignored.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, or a number of options is given without their
 *   lists.
 * - CUDA_ERROR_FILE_NOT_FOUND and the errors listed after it at cuModuleLoad: as there. */
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                       CUjit_option* jitOptions, void** jitOptionsValues,
                                       unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                       void** libraryOptionValues, unsigned int numLibraryOptions);
CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                   void** jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                   unsigned int numLibraryOptions);

/* Ends the handle, and the handles of its kernels, modules and functions. The code and its
 * variables stay loaded for work that uses them.
 * Errors:
 * - CUDA_ERROR_INVALID_HANDLE: not a library. */
CUresult CUDAAPI cuLibraryUnload(CUlibrary library);

/* Returns a kernel of the library by its name; the same handle each time. It can be passed where a
 * CUfunction is launched or queried for its occupancy, and then means that kernel in the stream's
 * context, or in the current one.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a library.
 * - CUDA_ERROR_NOT_FOUND: it exports no such function. */
CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name);

/* Returns the library as a module of the current context, for the functions of modules, except
 * cuModuleUnload, which returns CUDA_ERROR_NOT_PERMITTED for it. The same handle each time, until
 * the context ends.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pMod is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a library.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuLibraryGetModule(CUmodule* pMod, CUlibrary library);

/* Return the address and the size, in bytes, of an exported variable of the library; either pointer
 * may be NULL. All of its writable variables are managed memory, so both functions find the same
 * variables; cuLibraryGetGlobal needs a current context. Errors are those of cuModuleGetGlobal. */
CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                    const char* name);
CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                     const char* name);

/* Returns the address of an exported function of the library, for the host and for kernels.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a library.
 * - CUDA_ERROR_NOT_FOUND: it exports no such function. */
CUresult CUDAAPI cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol);

/* Returns the kernel as a function of the current context; the same handle each time, until the
 * context ends.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pFunc is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a kernel.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel);

/* Return the kernel's library, and its name, which is valid as long as the handle.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the first pointer is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a kernel. */
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel);
CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel hfunc);

/* As cuFuncGetAttribute, cuFuncSetAttribute and cuFuncSetCacheConfig, for one device. In addition:
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                      CUdevice dev);
CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                      CUdevice dev);
CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);

/* Return the offset of parameter paramIndex in the buffer that cuLaunchKernel's `extra` names, and
 * its size, both in bytes; paramSize may be NULL. cuFuncGetParamInfo needs a current context.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: paramOffset is NULL, or the kernel declares its parameters
 *   (WHERRY_KERNEL_PARAMS in wherry.h) and there is no such parameter.
 * - CUDA_ERROR_INVALID_HANDLE. */
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                      size_t* paramSize);
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                    size_t* paramSize);

#endif
