// The C functions that look functions up, by the CUDA version that a program was compiled for.
#include <atomic>

#include "api/driver_functions.h"
#include "api/exports.h"
#include "api/failed_calls.h"
#include "base/log.h"
#include "objects/failures/refusals.h"

using namespace wherry::impl;

namespace {

CUresult find(const char* symbol, void** pfn, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t both =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr) return refuse_null("symbol");
  if (*symbol == '\0')
    return fail(CUDA_ERROR_INVALID_VALUE, "symbol is empty; pass the name of a function");
  if (pfn == nullptr) return refuse_null("pfn");
  if ((flags & ~both) != 0) return refuse_bits(flags, both);
  if (flags == both)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "flags has both CU_GET_PROC_ADDRESS_LEGACY_STREAM and "
                "_PER_THREAD_DEFAULT_STREAM; pass one");
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

CUresult find_table(const void** table, const CUuuid* id) {
  if (table == nullptr) return refuse_null("ppExportTable");
  if (id == nullptr) return refuse_null("pExportTableId");
  *table = nullptr;
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true))
    log_line(
        "NVIDIA's own CUDA runtime, linked into this program or loaded by it, cannot continue: it "
        "needs undocumented functions of NVIDIA's driver (cuGetExportTable); link with nvcc "
        "-cudart shared, and make sure that the program finds the libcudart.so.13 beside this "
        "libcuda.so.1");
  return fail(CUDA_ERROR_NOT_FOUND,
              "there are no tables of undocumented functions; link with nvcc -cudart shared");
}

}  // namespace

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  return with_message([&] { return find(symbol, pfn, cudaVersion, flags, nullptr); });
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  return with_message([&] { return find(symbol, pfn, cudaVersion, flags, symbolStatus); });
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  return with_message([&] { return find_table(ppExportTable, pExportTableId); });
}
