// The runtime API's functions of host memory.
#include <cstdint>

#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

cudaError_t allocate(void** pointer, std::size_t size, unsigned flags,
                     const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    if (pointer == nullptr) return refuse_null("ptr");
    *pointer = nullptr;
    return size == 0 ? CUDA_SUCCESS : cuMemHostAlloc(pointer, size, flags);
  });
}

}  // namespace

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return allocate(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return allocate(pHost, size, flags);
}

cudaError_t cudaFreeHost(void* ptr) {
  return with_context([&] { return cuMemFreeHost(ptr); });
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  return with_context([&] {
    if (pDevice == nullptr) return refuse_null("pDevice");
    CUdeviceptr address = 0;
    const CUresult result = cuMemHostGetDevicePointer_v2(&address, pHost, flags);
    *pDevice = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return result;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  return with_context([&] { return cuMemHostGetFlags(pFlags, pHost); });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  return with_context([&] { return cuMemHostRegister_v2(ptr, size, flags); });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return with_context([&] { return cuMemHostUnregister(ptr); });
}
