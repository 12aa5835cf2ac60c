/* Part of cuda.h, which includes it: pitched memory of a device, and access to other devices'
 * memory. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_DEVICE_MEMORY_H
#define WHERRY_CUDA_DEVICE_MEMORY_H

#define cuMemAllocPitch cuMemAllocPitch_v2

/* Allocates, like cuMemAlloc, Height rows of at least WidthInBytes bytes. Row r begins at *dptr + r
 * * *pPitch; the pitch is the width rounded up to 512 bytes. ElementSizeBytes: 4, 8 or 16, the
 * largest access of kernels in bytes; no effect here.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, the width or height is 0, the width is above
 *   CU_DEVICE_ATTRIBUTE_MAX_PITCH, or another element size.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                 size_t Height, unsigned int ElementSizeBytes);

typedef enum CUdevice_P2PAttribute_enum {
  CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 0x01,
  CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 0x02,
  CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 0x03,
  CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED = 0x04,
  CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 0x04,
  CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 0x05
} CUdevice_P2PAttribute;

/* Returns 1 in *canAccessPeer if dev can access memory of peerDev's own after that is enabled,
 * which holds for any two different devices; else 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: canAccessPeer is NULL.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev);

/* Returns a capability of the link between two devices: access and all atomic operations are
 * supported, arrays are not, and all links are alike.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: value is NULL, or an unknown attribute.
 * - CUDA_ERROR_INVALID_DEVICE: also if both devices are the same. */
CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice, CUdevice dstDevice);

/* From now on kernels of the current context can access, at the same address, the memory that
 * cuMemAlloc and cuMemAllocPitch have allocated and will allocate in peerContext, which belongs to
 * another device. The pages do not move. Access is one-way: peerContext can access nothing more
 * than before. All contexts of a device share its page table, so until it is disabled all contexts
 * of the current context's device can access all memory of peerContext's device; programs should
 * not rely on that. The access ends when either context is destroyed or reset. Memory of pools is
 * subject to cuMemPoolSetAccess only.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: Flags is not 0.
 * - CUDA_ERROR_INVALID_CONTEXT: no current context, or peerContext is not a context or is the
 *   current one.
 * - CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: peerContext belongs to the same device.
 * - CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED. */
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags);

/* Ends the access that cuCtxEnablePeerAccess gave. Waits for the work that was submitted to the
 * current context's device before. When the call returns no mapping is left, unless another context
 * of the device has access, and a kernel that accesses the memory fails with
 * CUDA_ERROR_ILLEGAL_ADDRESS.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: no current context, or peerContext is not a context.
 * - CUDA_ERROR_PEER_ACCESS_NOT_ENABLED. */
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext);

#endif
