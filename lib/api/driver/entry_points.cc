// The C functions that look functions up, by the CUDA version that a program was compiled for.
#include <atomic>

#include "api/driver_functions.h"
#include "api/exports.h"
#include "base/log.h"

using namespace wherry::impl;

namespace {

CUresult find(const char* symbol, void** pfn, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  const cuuint64_t both =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || *symbol == '\0' || pfn == nullptr || (flags & ~both) != 0 ||
      (flags & both) == both) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const FoundFunction found = find_driver_function(
      symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  *pfn = reinterpret_cast<void*>(found.address);
  if (status != nullptr) {
    switch (found.lookup) {
      case Lookup::found:
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
        break;
      case Lookup::unknown:
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        break;
      case Lookup::too_old:
        *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        break;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return find(symbol, pfn, cudaVersion, flags, nullptr);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  return find(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ppExportTable = nullptr;
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true))
    log_line(
        "NVIDIA's own CUDA runtime, linked into this program or loaded by it, cannot continue: it "
        "needs undocumented functions of NVIDIA's driver (cuGetExportTable); link with nvcc "
        "-cudart shared, and make sure that the program finds the libcudart.so.13 beside this "
        "libcuda.so.1");
  return CUDA_ERROR_NOT_FOUND;
}
