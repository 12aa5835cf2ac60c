// The runtime API's functions of memory and advice.
#include <cstdint>
#include <iterator>

#include "api/cudart/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

cudaError_t advise(const void* pointer, std::size_t count, cudaMemoryAdvise advice,
                   cudaMemLocation location, const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return cuMemAdvise_v2(address_of(pointer), count, static_cast<CUmem_advise>(advice),
                          to_driver(location));
  });
}

}  // namespace

cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  return with_context([&] {
    if (devPtr == nullptr) return refuse_null("devPtr");
    CUdeviceptr address = 0;
    const CUresult result = size == 0 ? CUDA_SUCCESS : cuMemAllocManaged(&address, size, flags);
    *devPtr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return result;
  });
}

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return with_context([&] {
    if (devPtr == nullptr) return refuse_null("devPtr");
    CUdeviceptr address = 0;
    const CUresult result = size == 0 ? CUDA_SUCCESS : cuMemAlloc_v2(&address, size);
    *devPtr = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return result;
  });
}

cudaError_t cudaFree(void* devPtr) {
  return with_context([&] { return cuMemFree_v2(address_of(devPtr)); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return with_context([&] {
    if (attributes == nullptr) return refuse_null("attributes");
    unsigned type = 0;
    unsigned is_managed = 0;
    cudaPointerAttributes value{};
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* data[] = {&type, &is_managed, &value.device, &value.devicePointer, &value.hostPointer};
    const CUresult result = cuPointerGetAttributes(std::size(asked), asked, data, address_of(ptr));
    if (result != CUDA_SUCCESS) return result;
    value.type = is_managed != 0 ? cudaMemoryTypeManaged : static_cast<cudaMemoryType>(type);
    *attributes = value;
    return result;
  });
}

cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return advise(devPtr, count, advice, location);
}
cudaError_t cudaMemAdvise_v2(const void* devPtr, size_t count, cudaMemoryAdvise advice,
                             cudaMemLocation location) {
  return advise(devPtr, count, advice, location);
}
cudaError_t cudaMemAdvise_v1(const void* devPtr, size_t count, cudaMemoryAdvise advice,
                             int device) {
  return with_context([&] {
    return cuMemAdvise(address_of(devPtr), count, static_cast<CUmem_advise>(advice), device);
  });
}

cudaError_t cudaMemRangeGetAttribute(void* data, size_t dataSize, cudaMemRangeAttribute attribute,
                                     const void* devPtr, size_t count) {
  return with_context([&] {
    return cuMemRangeGetAttribute(data, dataSize, static_cast<CUmem_range_attribute>(attribute),
                                  address_of(devPtr), count);
  });
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* dataSizes,
                                      cudaMemRangeAttribute* attributes, size_t numAttributes,
                                      const void* devPtr, size_t count) {
  return with_context([&] {
    return cuMemRangeGetAttributes(data, dataSizes,
                                   reinterpret_cast<CUmem_range_attribute*>(attributes),
                                   numAttributes, address_of(devPtr), count);
  });
}
