/* Part of cuda.h, which includes it: memory of devices' own, in rows, and accessed by other
 * devices. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_DEVICE_MEMORY_H
#define WHERRY_CUDA_DEVICE_MEMORY_H

#define cuMemAllocPitch cuMemAllocPitch_v2

/* Allocates, as cuMemAlloc does, Height rows of at least WidthInBytes bytes. Row r begins at *dptr
 * + r * *pPitch; the pitch is the width rounded up to 512. ElementSizeBytes: 4, 8 or 16, the
 * largest access of kernels, which changes nothing here. CUDA_ERROR_INVALID_VALUE: a NULL pointer,
 * a width or height of 0, another element size; CUDA_ERROR_OUT_OF_MEMORY;
 * CUDA_ERROR_INVALID_CONTEXT. On errors *dptr is 0. */
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

/* *canAccessPeer: 1 if dev can access memory of peerDev's own, once that is enabled: any other
 * device can. CUDA_ERROR_INVALID_VALUE: canAccessPeer NULL; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev);

/* What the link between two devices can do: access and all atomic operations; no arrays, and all
 * links are the same. CUDA_ERROR_INVALID_VALUE: value NULL or an unknown attribute;
 * CUDA_ERROR_INVALID_DEVICE, also where both are the same. */
CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice, CUdevice dstDevice);

/* From now on kernels of the current context can access, at the same address, what cuMemAlloc and
 * cuMemAllocPitch allocated and will allocate in peerContext, of another device. The pages stay
 * where they are. One way only: peerContext can access nothing more than before. All contexts of a
 * device share its page table, so all of the current context's device can access all memory of
 * peerContext's device meanwhile; programs should not count on it. Ends with either context, and
 * when one of them is reset. Memory of pools goes by cuMemPoolSetAccess alone.
 * CUDA_ERROR_INVALID_VALUE: Flags not 0; CUDA_ERROR_INVALID_CONTEXT: no current context, or
 * peerContext is none or the current one; CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: it is of the same
 * device; CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED. */
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags);

/* Ends that. Waits for work that was given to the current context's device before; when it returns
 * no mapping is left, unless another context of the device has access, and a kernel that touches
 * the memory fails with CUDA_ERROR_ILLEGAL_ADDRESS. CUDA_ERROR_INVALID_CONTEXT: no current context,
 * or peerContext is none; CUDA_ERROR_PEER_ACCESS_NOT_ENABLED. */
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext);

#endif
