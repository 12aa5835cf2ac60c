// The runtime API's functions that look up functions of the driver API.
#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

cudaError_t find(const char* symbol, void** pointer, unsigned version, unsigned long long flags,
                 cudaDriverEntryPointQueryResult* status, const char* call = __builtin_FUNCTION()) {
  return finish(cuGetProcAddress_v2(symbol, pointer, static_cast<int>(version), flags,
                                    reinterpret_cast<CUdriverProcAddressQueryResult*>(status)),
                call);
}

unsigned long long with_own_stream(unsigned long long flags) {
  if (flags == cudaEnableDefault) return cudaEnablePerThreadDefaultStream;
  return flags;
}

}  // namespace

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* driverStatus) {
  return find(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}
cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* driverStatus) {
  return find(symbol, funcPtr, CUDART_VERSION, with_own_stream(flags), driverStatus);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* driverStatus) {
  return find(symbol, funcPtr, cudaVersion, flags, driverStatus);
}
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** funcPtr,
                                                  unsigned int cudaVersion,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* driverStatus) {
  return find(symbol, funcPtr, cudaVersion, with_own_stream(flags), driverStatus);
}

cudaError_t cudaGetExportTable(const void** ppExportTable, const cudaUUID_t* pExportTableId) {
  return finish(cuGetExportTable(ppExportTable, pExportTableId));
}
