// The runtime API's functions of devices' own memory, of peer access and of pools.
#include "api/cudart/entry.h"
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

void* to_pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// Calls allocate_at(&address) of the driver API, and returns the address as a pointer.
template <typename Allocate>
cudaError_t allocate(void** pointer, const Allocate& allocate_at,
                     const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    if (pointer == nullptr) return refuse_null("devPtr");
    CUdeviceptr address = 0;
    const CUresult result = allocate_at(&address);
    *pointer = to_pointer(address);
    return result;
  });
}

CUresult allocate_rows(void*& pointer, std::size_t& pitch, std::size_t width, std::size_t rows) {
  CUdeviceptr address = 0;
  pitch = 0;
  // The element size, 4, may be any that is allowed, because it makes no difference.
  const CUresult result =
      width == 0 || rows == 0 ? CUDA_SUCCESS : cuMemAllocPitch_v2(&address, &pitch, width, rows, 4);
  pointer = to_pointer(address);
  return result;
}

// Calls body(context) with the primary context of the device, which stays in use.
template <typename Body>
cudaError_t with_peer(int device, const Body& body, const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    CUcontext peer = nullptr;
    const CUresult found = enter(call, [&](Driver& driver) {
      Device* of = driver.device(device);
      if (of == nullptr) return refuse_device(driver.runtime(), device);
      peer = driver.retain_primary_for_runtime(*of);
      return CUDA_SUCCESS;
    });
    if (found != CUDA_SUCCESS) return found;
    const CUresult result = body(peer);
    // Callers of this API pass a device, not a context, so the device is reported as invalid.
    return result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || result == CUDA_ERROR_INVALID_CONTEXT
               ? fail_instead(result, CUDA_ERROR_INVALID_DEVICE)
               : result;
  });
}

cudaError_t allocate_async(void** pointer, std::size_t size, CUstream stream,
                           const char* call = __builtin_FUNCTION()) {
  return allocate(
      pointer, [&](CUdeviceptr* address) { return cuMemAllocAsync(address, size, stream); }, call);
}
cudaError_t allocate_from_pool(void** pointer, std::size_t size, cudaMemPool_t pool,
                               CUstream stream, const char* call = __builtin_FUNCTION()) {
  return allocate(
      pointer,
      [&](CUdeviceptr* address) { return cuMemAllocFromPoolAsync(address, size, pool, stream); },
      call);
}
cudaError_t free_async(void* pointer, CUstream stream, const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] { return cuMemFreeAsync(address_of(pointer), stream); });
}

}  // namespace

cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  return with_context([&] {
    if (devPtr == nullptr) return refuse_null("devPtr");
    if (pitch == nullptr) return refuse_null("pitch");
    return allocate_rows(*devPtr, *pitch, width, height);
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  return with_context([&] {
    if (pitchedDevPtr == nullptr) return refuse_null("pitchedDevPtr");
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "{} layers of {} rows are more than 2^64 rows; pass fewer", extent.depth,
                  extent.height);
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return allocate_rows(pitchedDevPtr->ptr, pitchedDevPtr->pitch, extent.width, rows);
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return with_library([&] { return cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice); });
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice,
                                      int dstDevice) {
  return with_library([&] {
    return cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr), srcDevice,
                                   dstDevice);
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return with_peer(peerDevice, [&](CUcontext peer) { return cuCtxEnablePeerAccess(peer, flags); });
}
cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  return with_peer(peerDevice, [](CUcontext peer) { return cuCtxDisablePeerAccess(peer); });
}

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  return allocate_async(devPtr, size, hStream);
}
cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream) {
  return allocate_from_pool(ptr, size, memPool, stream);
}
cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  return free_async(devPtr, hStream);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return with_library([&] { return cuDeviceGetDefaultMemPool(memPool, device); });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return with_library([&] { return cuDeviceGetMemPool(memPool, device); });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return with_library([&] { return cuDeviceSetMemPool(device, memPool); });
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  return with_library(
      [&] { return cuMemPoolCreate(memPool, reinterpret_cast<const CUmemPoolProps*>(poolProps)); });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return with_library([&] { return cuMemPoolDestroy(memPool); });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  return with_library([&] { return cuMemPoolTrimTo(memPool, minBytesToKeep); });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_library([&] {
    return cuMemPoolSetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_library([&] {
    return cuMemPoolGetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList,
                                 size_t count) {
  return with_library([&] {
    return cuMemPoolSetAccess(memPool, reinterpret_cast<const CUmemAccessDesc*>(descList), count);
  });
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool,
                                 cudaMemLocation* location) {
  return with_library([&] {
    return cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), memPool,
                              reinterpret_cast<CUmemLocation*>(location));
  });
}
cudaError_t cudaMemPoolExportToShareableHandle(void* shareableHandle, cudaMemPool_t memPool,
                                               cudaMemAllocationHandleType handleType,
                                               unsigned int flags) {
  return with_library([&] {
    return cuMemPoolExportToShareableHandle(
        shareableHandle, memPool, static_cast<CUmemAllocationHandleType>(handleType), flags);
  });
}
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* memPool, void* shareableHandle,
                                                 cudaMemAllocationHandleType handleType,
                                                 unsigned int flags) {
  return with_library([&] {
    return cuMemPoolImportFromShareableHandle(
        memPool, shareableHandle, static_cast<CUmemAllocationHandleType>(handleType), flags);
  });
}
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* exportData, void* ptr) {
  return with_library([&] {
    return cuMemPoolExportPointer(reinterpret_cast<CUmemPoolPtrExportData*>(exportData),
                                  address_of(ptr));
  });
}
cudaError_t cudaMemPoolImportPointer(void** ptr, cudaMemPool_t memPool,
                                     cudaMemPoolPtrExportData* exportData) {
  return with_library([&] {
    return cuMemPoolImportPointer(reinterpret_cast<CUdeviceptr*>(ptr), memPool,
                                  reinterpret_cast<CUmemPoolPtrExportData*>(exportData));
  });
}
