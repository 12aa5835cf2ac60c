// The C functions that share memory and events between processes.
#include <bit>
#include <optional>

#include "api/entry.h"

using namespace wherry::impl;

namespace {

CUresult open_memory(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags,
                     const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (address == nullptr) return refuse_null("pdptr");
    *address = 0;
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "Flags is {:#x}; pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS", flags);
    return driver.imported().open(std::bit_cast<OfferHandle>(handle), context->handle,
                                  context->device.ordinal, *address);
  });
}

// If an event's handle names nothing, the error code is another one than for a memory handle.
CUresult as_of_event(CUresult found) {
  return found == CUDA_ERROR_INVALID_VALUE ? fail_instead(found, CUDA_ERROR_MAP_FAILED) : found;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (handle == nullptr) return refuse_null("pHandle");
    OfferHandle offer;
    const CUresult offered = driver.offers().offer(address, MemoryKind::device, offer);
    if (offered == CUDA_SUCCESS) *handle = std::bit_cast<CUipcMemHandle>(offer);
    return offered;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}
// This variant is from before the driver counted how often a handle is open; its signature is the
// same.
CUresult cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    std::optional<ImportedMemory::Import> last;
    const CUresult closed = driver.imported().close(address, last);
    if (!last) return closed;
    driver.end_import(*last);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return refuse_null("pHandle");
    const auto found = driver.find_event(event);
    if (!found) return refuse_handle(event);
    if ((found->flags & CU_EVENT_INTERPROCESS) == 0)
      return fail(CUDA_ERROR_INVALID_HANDLE,
                  "the event is for this process only; create one with CU_EVENT_INTERPROCESS and "
                  "CU_EVENT_DISABLE_TIMING");
    OfferHandle offer;
    const CUresult offered = driver.offers().offer(*found->shared, offer);
    if (offered != CUDA_SUCCESS) return offered;
    // A thread that destroyed the event during the call may have found no offer to withdraw.
    if (driver.find_event(event) != found) {
      driver.offers().withdraw(*found->shared);
      return refuse_handle(event);
    }
    *handle = std::bit_cast<CUipcEventHandle>(offer);
    return CUDA_SUCCESS;
  });
}
CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return enter([&](Driver& driver) {
    if (event == nullptr) return refuse_null("phEvent");
    std::shared_ptr<Context> context;
    const CUresult working = find_working(driver, context);
    if (working != CUDA_SUCCESS) return working;
    ForeignOffer offer;
    const auto named = std::bit_cast<OfferHandle>(handle);
    const CUresult found = find_offer(named, OfferKind::event, offer);
    if (found != CUDA_SUCCESS) return as_of_event(found);
    Fd file;
    const CUresult opened = open_offer(named, offer, file);
    if (opened != CUDA_SUCCESS) return as_of_event(opened);
    auto shared = SharedEvent::of(std::move(file));
    if (!shared || !offer.stands())
      return fail(CUDA_ERROR_MAP_FAILED,
                  "process {} has destroyed the event, or its file is none of an event; get a new "
                  "handle",
                  named.pid);
    *event = driver.create_event(context, CU_EVENT_DISABLE_TIMING, std::move(shared));
    return CUDA_SUCCESS;
  });
}
