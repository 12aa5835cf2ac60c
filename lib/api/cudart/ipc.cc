// The runtime API's functions that share memory and events between processes.
#include <bit>
#include <cstdint>

#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* devPtr) {
  static_assert(sizeof *handle == sizeof(CUipcMemHandle));
  return with_context([&] {
    return cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), address_of(devPtr));
  });
}

cudaError_t cudaIpcOpenMemHandle(void** devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
  return with_context([&] {
    if (devPtr == nullptr) return refuse_null("devPtr");
    CUdeviceptr address = 0;
    const CUresult result =
        cuIpcOpenMemHandle_v2(&address, std::bit_cast<CUipcMemHandle>(handle), flags);
    *devPtr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return result;
  });
}

cudaError_t cudaIpcCloseMemHandle(void* devPtr) {
  return with_context([&] { return cuIpcCloseMemHandle(address_of(devPtr)); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  static_assert(sizeof *handle == sizeof(CUipcEventHandle));
  return with_context(
      [&] { return cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event); });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return with_context(
      [&] { return cuIpcOpenEventHandle(event, std::bit_cast<CUipcEventHandle>(handle)); });
}
