/* Part of cuda.h, which includes it: libraries, which are modules that belong to no context, and
 * the kernels in them. */
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

/* True of every function here: it needs no current context, unless it says so.
 *
 * Loads the shared object at fileName, or the one that lies in memory at `code`, as cuModuleLoad
 * and cuModuleLoadData do. Options are for compilers and loaders of device code, and ignored.
 * CUDA_ERROR_INVALID_VALUE: a pointer NULL, or a number of options without their lists;
 * CUDA_ERROR_FILE_NOT_FOUND and what follows there: as cuModuleLoad. */
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                       CUjit_option* jitOptions, void** jitOptionsValues,
                                       unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                       void** libraryOptionValues, unsigned int numLibraryOptions);
CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                   void** jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                   unsigned int numLibraryOptions);

/* Ends the handle, and those of its kernels, modules and functions. The code and its variables
 * stay, for work that uses them. CUDA_ERROR_INVALID_HANDLE: no library. */
CUresult CUDAAPI cuLibraryUnload(CUlibrary library);

/* A kernel of the library by its name; the same handle each time. It goes where a CUfunction is
 * launched, or asked for its occupancy, and means that kernel in the context of the stream, or the
 * current one. CUDA_ERROR_INVALID_VALUE: a pointer NULL; CUDA_ERROR_INVALID_HANDLE: no library;
 * CUDA_ERROR_NOT_FOUND: it exports no such function. */
CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name);

/* The library as a module of the current context, for the functions of modules; only cuModuleUnload
 * refuses it: CUDA_ERROR_NOT_PERMITTED. The same handle each time, until the context ends.
 * CUDA_ERROR_INVALID_VALUE: pMod NULL; CUDA_ERROR_INVALID_HANDLE: no library;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuLibraryGetModule(CUmodule* pMod, CUlibrary library);

/* Where an exported variable of the library is, and its size; either pointer may be NULL. All of
 * its writable variables are managed memory, so both functions find the same; the first needs a
 * current context. Errors as cuModuleGetGlobal. */
CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                    const char* name);
CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                     const char* name);

/* Where an exported function of the library is, for the host and for kernels.
 * CUDA_ERROR_INVALID_VALUE: a pointer NULL; CUDA_ERROR_INVALID_HANDLE: no library;
 * CUDA_ERROR_NOT_FOUND: it exports no such function. */
CUresult CUDAAPI cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol);

/* The kernel as a function of the current context; the same handle each time, until the context
 * ends. CUDA_ERROR_INVALID_VALUE: pFunc NULL; CUDA_ERROR_INVALID_HANDLE: no kernel;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel);

/* The kernel's library; its name, which lives as long as the handle. CUDA_ERROR_INVALID_VALUE: the
 * first pointer NULL; CUDA_ERROR_INVALID_HANDLE: no kernel. */
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel);
CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel hfunc);

/* As cuFuncGetAttribute, cuFuncSetAttribute and cuFuncSetCacheConfig, for one device.
 * CUDA_ERROR_INVALID_DEVICE, too. */
CUresult CUDAAPI cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                      CUdevice dev);
CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                      CUdevice dev);
CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);

/* Where parameter paramIndex lies in the buffer that cuLaunchKernel's `extra` names, and its size,
 * both in bytes; paramSize may be NULL. CUDA_ERROR_INVALID_VALUE: paramOffset NULL, or there is no
 * such parameter, as far as the kernel says how many it has (WHERRY_KERNEL_PARAMS in wherry.h);
 * CUDA_ERROR_INVALID_HANDLE. The second needs a current context. */
CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                      size_t* paramSize);
CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                    size_t* paramSize);

#endif
