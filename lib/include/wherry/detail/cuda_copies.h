/* Part of cuda.h, which includes it: copies and fills. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_COPIES_H
#define WHERRY_CUDA_COPIES_H

#define cuMemcpy2D __CUDA_API_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DAsync __CUDA_API_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy2DUnaligned __CUDA_API_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy3D __CUDA_API_PTDS(cuMemcpy3D_v2)
#define cuMemcpy3DAsync __CUDA_API_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemcpyDtoD __CUDA_API_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyDtoDAsync __CUDA_API_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpyDtoH __CUDA_API_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoHAsync __CUDA_API_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyHtoD __CUDA_API_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyHtoDAsync __CUDA_API_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemsetD16 __CUDA_API_PTDS(cuMemsetD16_v2)
#define cuMemsetD2D16 __CUDA_API_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D32 __CUDA_API_PTDS(cuMemsetD2D32_v2)
#define cuMemsetD2D8 __CUDA_API_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD32 __CUDA_API_PTDS(cuMemsetD32_v2)
#define cuMemsetD8 __CUDA_API_PTDS(cuMemsetD8_v2)
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)
#define cuMemcpy3DPeer __CUDA_API_PTDS(cuMemcpy3DPeer)
#define cuMemcpy3DPeerAsync __CUDA_API_PTSZ(cuMemcpy3DPeerAsync)
#define cuMemcpyAsync __CUDA_API_PTSZ(cuMemcpyAsync)
#define cuMemcpyPeer __CUDA_API_PTDS(cuMemcpyPeer)
#define cuMemcpyPeerAsync __CUDA_API_PTSZ(cuMemcpyPeerAsync)
#define cuMemsetD16Async __CUDA_API_PTSZ(cuMemsetD16Async)
#define cuMemsetD2D16Async __CUDA_API_PTSZ(cuMemsetD2D16Async)
#define cuMemsetD2D32Async __CUDA_API_PTSZ(cuMemsetD2D32Async)
#define cuMemsetD2D8Async __CUDA_API_PTSZ(cuMemsetD2D8Async)
#define cuMemsetD32Async __CUDA_API_PTSZ(cuMemsetD32Async)
#define cuMemsetD8Async __CUDA_API_PTSZ(cuMemsetD8Async)
#endif

/* A rectangle of bytes: Height rows of WidthInBytes bytes. Row r of the source begins (srcY + r) *
 * srcPitch + srcXInBytes bytes after srcHost (CU_MEMORYTYPE_HOST) or srcDevice
 * (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED); likewise for the destination. */
typedef struct CUDA_MEMCPY2D_st {
  size_t srcXInBytes;
  size_t srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  size_t srcPitch;
  size_t dstXInBytes;
  size_t dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  size_t dstPitch;
  size_t WidthInBytes;
  size_t Height;
} CUDA_MEMCPY2D_v2;
typedef CUDA_MEMCPY2D_v2 CUDA_MEMCPY2D;

/* A box of bytes: Depth rectangles like those of CUDA_MEMCPY2D, srcHeight * srcPitch bytes apart. A
 * pitch of 0 means WidthInBytes, a height of 0 means Height. */
typedef struct CUDA_MEMCPY3D_st {
  size_t srcXInBytes;
  size_t srcY;
  size_t srcZ;
  size_t srcLOD; /* must be 0 */
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  size_t srcPitch;
  size_t srcHeight;
  size_t dstXInBytes;
  size_t dstY;
  size_t dstZ;
  size_t dstLOD; /* must be 0 */
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  size_t dstPitch;
  size_t dstHeight;
  size_t WidthInBytes;
  size_t Height;
  size_t Depth;
} CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_v2 CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
  size_t srcXInBytes;
  size_t srcY;
  size_t srcZ;
  size_t srcLOD; /* must be 0 */
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  CUcontext srcContext; /* of memory of type CU_MEMORYTYPE_DEVICE */
  size_t srcPitch;
  size_t srcHeight;
  size_t dstXInBytes;
  size_t dstY;
  size_t dstZ;
  size_t dstLOD; /* must be 0 */
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  CUcontext dstContext; /* of memory of type CU_MEMORYTYPE_DEVICE */
  size_t dstPitch;
  size_t dstHeight;
  size_t WidthInBytes;
  size_t Height;
  size_t Depth;
} CUDA_MEMCPY3D_PEER_v1;
typedef CUDA_MEMCPY3D_PEER_v1 CUDA_MEMCPY3D_PEER;

/* Copy memory of any kind to memory of any kind, in stream order. Functions without Async use the
 * default stream of the current context. The library finds the kind of memory from the pointer;
 * memory that it does not know is the host's. HtoD, DtoH and DtoD state what the pointers must be:
 * D, memory that the library knows; H, memory that the host may access.
 *
 * Managed memory does not move. Absent pages of the source are read as zeros and not created.
 * Absent pages of the destination are created at the preferred location; without one, on the host
 * for DtoH, else on the stream's device. If no space can be made there, they are created on the
 * host or any device that has space. Read-only copies of pages that are written are dropped.
 *
 * Memory that is mapped with cuMemMap is copied if the device of the stream's context has access to
 * it, whatever access the calling thread has; adjacent mappings count as one. For H it counts as
 * the host's memory if the host has access.
 *
 * State of the copy when the call returns:
 *                                         without Async           with Async
 *    from pageable host memory            done                    source read, also if earlier work
 *      to memory of another kind                                  of the stream is pending
 *    to pageable host memory              done                    done, in stream order
 *    host memory at both ends             done                    done
 *    device memory at both ends           may not have begun      may not have begun
 *    otherwise                            done                    may not have begun
 * Managed memory counts as device memory with SYNC_MEMOPS set (cuPointerSetAttribute). If
 * SYNC_MEMOPS is set, calls without Async return when the copy is done. Async calls may access
 * page-locked host memory after they have returned.
 *
 * A copy of 0 bytes accepts any pointers. If source and destination overlap, the destination's
 * contents are undefined.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE, and nothing has been copied: a range that reaches past the end of its
 *   allocation, memory of another kind than the function requires, memory without access, or a NULL
 *   pointer.
 * - CUDA_ERROR_INVALID_VALUE, and a part may have been copied: host memory that this process does
 *   not have.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no memory for absent pages.
 * - CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE (not a stream), or the context's error.
 * An error that occurs after the call has returned fails the context. */
CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                               CUstream hStream);
CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount);
CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream);
CUresult CUDAAPI cuMemcpyDtoH(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount);
CUresult CUDAAPI cuMemcpyDtoHAsync(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream);
CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount);
CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream);

/* As cuMemcpyDtoD: every device can access every other device's memory. For memory mapped with
 * cuMemMap, the access of each context's device counts.
 * Errors:
 * - CUDA_ERROR_INVALID_CONTEXT: also if one of the arguments is not a context. */
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                              CUcontext srcContext, size_t ByteCount);
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
                                   CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
                                   CUstream hStream);

/* Copy rectangles and boxes. No pitch or alignment is faster than another. Errors of copies, and:
 * - CUDA_ERROR_INVALID_VALUE: pCopy is NULL, an unknown memory type, a pitch that is less than a
 *   row or more than CU_DEVICE_ATTRIBUTE_MAX_PITCH, a height that is less than the box's, or srcLOD
 *   or dstLOD is not 0.
 * - CUDA_ERROR_NOT_SUPPORTED: CU_MEMORYTYPE_ARRAY. */
CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D* pCopy);
CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* pCopy);
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D* pCopy, CUstream hStream);
CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D* pCopy);
CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D* pCopy, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy);
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream);

/* Set N values of 1, 2 or 4 bytes in memory that this library knows, in stream order like copies.
 * Absent pages are created as by a copy to a device. D2 functions set Height rows of Width values;
 * the rows are dstPitch bytes apart. Without Async, the call returns when the memory has been set
 * if it is page-locked host memory or managed memory, or has SYNC_MEMOPS set. Otherwise, and with
 * Async, the operation may not have begun when the call returns.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE, unless there is nothing to set: other memory, a range that reaches
 *   past the end of its allocation, an address (or a pitch, if it is used) that is not a multiple
 *   of the value's size, or a pitch that is less than a row or more than
 *   CU_DEVICE_ATTRIBUTE_MAX_PITCH.
 * Other errors are those of copies. */
CUresult CUDAAPI cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N);
CUresult CUDAAPI cuMemsetD16(CUdeviceptr dstDevice, unsigned short us, size_t N);
CUresult CUDAAPI cuMemsetD32(CUdeviceptr dstDevice, unsigned int ui, size_t N);
CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                              size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                               size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                               size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                 CUstream hStream);
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
                                  CUstream hStream);
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
                                  CUstream hStream);
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
                                   size_t Width, size_t Height, CUstream hStream);
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                    size_t Width, size_t Height, CUstream hStream);
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
                                    size_t Width, size_t Height, CUstream hStream);

#endif
