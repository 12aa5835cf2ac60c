/* Part of cuda.h, which includes it: finding functions by name and version. Works at any time, also
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

/* Returns in *pfn the function of this API that a program built for CUDA `cudaVersion` (12020 is
 * 12.2) calls by `symbol`, a name without a version: the newest version of the function that is not
 * newer than the program. With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM it returns the variant
 * whose NULL stream is the calling thread's own, if there is one; CU_GET_PROC_ADDRESS_DEFAULT means
 * the same with CUDA_API_PER_THREAD_DEFAULT_STREAM. *symbolStatus, which may be NULL, says whether
 * the function was found, does not exist, or exists only in newer versions. In the last two cases
 * *pfn is NULL and the result is CUDA_SUCCESS.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: symbol is NULL or empty, pfn is NULL, or other flags. */
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

/* Tables of functions by number, which a driver has for NVIDIA's own libraries. Not supported.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_NOT_FOUND: otherwise. */
CUresult CUDAAPI cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId);

#endif
