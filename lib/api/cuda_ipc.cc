// The C functions of what processes share.
#include <cstring>
#include <optional>

#include "api/entry.h"

using namespace wherry::impl;

namespace {

OfferHandle to_offer(const CUipcMemHandle& handle) {
  OfferHandle offer;
  static_assert(sizeof offer == sizeof handle);
  std::memcpy(&offer, &handle, sizeof offer);
  return offer;
}

CUresult get_memory(CUipcMemHandle* handle, CUdeviceptr address) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    OfferHandle offer;
    const CUresult offered = driver.offered().offer(address, MemoryKind::device, offer);
    if (offered == CUDA_SUCCESS) std::memcpy(handle, &offer, sizeof offer);
    return offered;
  });
}

CUresult open_memory(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags) {
  return enter([&](Driver& driver) {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    return driver.imported().open(to_offer(handle), context->handle, context->device.ordinal,
                                  *address);
  });
}

CUresult close_memory(CUdeviceptr address) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    std::optional<ImportedMemory::Import> last;
    const CUresult closed = driver.imported().close(address, last);
    if (!last) return closed;
    // Work that was launched before may still use it.
    driver.wait_for_all_work();
    driver.imported().end(*last);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return get_memory(pHandle, dptr);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}
// Of before the driver counted how often a handle is open; the signature is the same.
CUresult cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return close_memory(dptr);
}
