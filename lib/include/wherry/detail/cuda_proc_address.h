/* Part of cuda.h, which includes it: finding functions by name and version; works at any time, also
 * before cuInit. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_PROC_ADDRESS_H
#define WHERRY_CUDA_PROC_ADDRESS_H

typedef enum CUdriverProcAddress_flags_enum {
  CU_GET_PROC_ADDRESS_DEFAULT = 0,
  CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1 << 0,
  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 1 << 1
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
} CUdriverProcAddressQueryResult;

/* Gives in *pfn the function of this API that a program made for CUDA `cudaVersion` (12020: 12.2)
 * calls by `symbol`, a name without a version: of its forms the newest one that is not newer than
 * the program. With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM the form whose NULL stream is the
 * calling thread's own, where there is one; CU_GET_PROC_ADDRESS_DEFAULT means it with
 * CUDA_API_PER_THREAD_DEFAULT_STREAM. *symbolStatus, which may be NULL: found; there is no such
 * function; all of its forms are newer. In the last two cases *pfn is NULL and the result
 * CUDA_SUCCESS. CUDA_ERROR_INVALID_VALUE: symbol NULL or empty, pfn NULL, or other flags. */
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* symbolStatus);

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
static inline CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** pfn, int cudaVersion,
                                                cuuint64_t flags,
                                                CUdriverProcAddressQueryResult* symbolStatus) {
  const cuuint64_t both =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & both) == 0) flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
}
#define cuGetProcAddress_v2 cuGetProcAddress_v2_ptsz
#endif

/* Tables of functions by number, which a driver has for NVIDIA's own libraries; there are none
 * here. CUDA_ERROR_INVALID_VALUE: a NULL pointer; else CUDA_ERROR_NOT_FOUND. */
CUresult CUDAAPI cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId);

#endif
