/* Part of cuda.h, which includes it: memory of devices' own that is allocated and freed in the
 * order of a stream. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_POOLS_H
#define WHERRY_CUDA_POOLS_H

#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuMemAllocAsync __CUDA_API_PTSZ(cuMemAllocAsync)
#define cuMemAllocFromPoolAsync __CUDA_API_PTSZ(cuMemAllocFromPoolAsync)
#define cuMemFreeAsync __CUDA_API_PTSZ(cuMemFreeAsync)
#endif

typedef enum CUmemAllocationType_enum {
  CU_MEM_ALLOCATION_TYPE_INVALID = 0x0,
  CU_MEM_ALLOCATION_TYPE_PINNED = 0x1,
  CU_MEM_ALLOCATION_TYPE_MANAGED = 0x2,
  CU_MEM_ALLOCATION_TYPE_MAX = 0x7FFFFFFF
} CUmemAllocationType;

typedef enum CUmemAccess_flags_enum {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0x0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 0x1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 0x3,
  CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7FFFFFFF
} CUmemAccess_flags;

typedef struct CUmemAccessDesc_st {
  CUmemLocation location;
  CUmemAccess_flags flags;
} CUmemAccessDesc_v1;
typedef CUmemAccessDesc_v1 CUmemAccessDesc;

typedef struct CUmemPoolProps_st {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
} CUmemPoolProps_v1;
typedef CUmemPoolProps_v1 CUmemPoolProps;

typedef enum CUmemPool_attribute_enum {
  CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
  CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
  CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
  CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
  CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8
} CUmemPool_attribute;

typedef struct CUmemPoolPtrExportData_st {
  unsigned char reserved[64];
} CUmemPoolPtrExportData_v1;
typedef CUmemPoolPtrExportData_v1 CUmemPoolPtrExportData;

/* ---- Allocating
 *
 * A pool takes memory of its device in steps of 32 MiB (of 2 MiB where there is no room for that),
 * hands out parts of it, and has them back for the next one. The memory is a device's own, like
 * cuMemAlloc's: it stays in the device's pool, the host cannot touch it, and it survives
 * cuDevicePrimaryCtxReset and the end of any context. It is not zeroed between two uses.
 *
 * Freed memory is handed out again
 *   - to its stream at once, because work of that stream runs later than the free;
 *   - to all streams when the work that was given to the stream before the free has finished;
 *   - to another stream before that, where nothing else is left and
 * REUSE_ALLOW_INTERNAL_DEPENDENCIES allows it: that stream's work then waits for the free. No call
 * here waits for work. */

/* Allocates `bytesize` bytes from the current pool of the stream's device, for work that is given
 * to the stream after, and for all that is ordered after that. Addresses are multiples of 4 KiB.
 * CUDA_ERROR_INVALID_VALUE: dptr NULL or bytesize 0; CUDA_ERROR_OUT_OF_MEMORY: the pool may not or
 * cannot grow; CUDA_ERROR_INVALID_HANDLE: not a stream; CUDA_ERROR_INVALID_CONTEXT: a default
 * stream without a current context; the error of the stream's context. On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream);

/* The same from this pool, which may be of another device than the stream: then its kernels can
 * access the memory only as cuMemPoolSetAccess says. CUDA_ERROR_INVALID_VALUE: also where it is no
 * pool. */
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream);

/* Frees memory of a pool, of which dptr is the first address, when the work that was given to the
 * stream before has finished or been thrown away. To this API the address is free when the call
 * returns: it has no attributes, and to free it again is an error. A kernel that touches it after
 * the free reads and writes what the pool has made of it; once the pool has given it back, that is
 * CUDA_ERROR_ILLEGAL_ADDRESS. cuMemFree takes memory of pools, too, and then waits as for any
 * other. CUDA_ERROR_INVALID_VALUE: not the first address of live memory of a pool;
 * CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT as above; the error of the stream's
 * context, and then it is not freed. */
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);

/* ---- Pools */

/* The pool that the device has from the start; the one that cuMemAllocAsync takes for the device,
 * at first the same; and another one for that. CUDA_ERROR_INVALID_VALUE: pool_out NULL, not a pool,
 * or one of another device; CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev);
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev);
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);

/* Makes a pool of a device: allocType CU_MEM_ALLOCATION_TYPE_PINNED, location a device, maxSize how
 * much it may take, rounded up to 2 MiB; 0: all there is; handleTypes CU_MEM_HANDLE_TYPE_NONE, or
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, which lets other processes open its memory. Everything
 * else is 0. CUDA_ERROR_INVALID_VALUE: a NULL pointer, or properties that there are not, as other
 * types of handles; CUDA_ERROR_INVALID_DEVICE; CUDA_ERROR_NOT_SUPPORTED: CU_MEM_HANDLE_TYPE_FABRIC,
 * managed memory, the host; CUDA_ERROR_OUT_OF_MEMORY: there are as many pools as can be, 118. */
CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps);

/* The handle is none any more. What is allocated still is, and the pool's memory is given back when
 * all of that is free. A device of which it was the current pool gets its default pool back.
 * CUDA_ERROR_INVALID_VALUE: not a pool, or a device's default one. */
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool);

/* Gives memory back that nothing is allocated in, as long as minBytesToKeep bytes stay reserved.
 * CUDA_ERROR_INVALID_VALUE: not a pool. */
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);

/* Attributes, at *value.
 *   RELEASE_THRESHOLD         cuuint64_t: what is reserved beyond is given back, as cuMemPoolTrimTo
 * does it, when a stream, event or context is waited for. At first 0 RESERVED_MEM_CURRENT
 * cuuint64_t, cannot be set: how much the pool has taken of its device's memory USED_MEM_CURRENT
 * cuuint64_t, cannot be set: how much of that is handed out, in whole pages of 4 KiB, or freed and
 *                             its stream not yet there
 *   RESERVED_MEM_HIGH, USED_MEM_HIGH
 *                             cuuint64_t: the most there was since it was set, which it can only be
 * to 0 REUSE_ALLOW_INTERNAL_DEPENDENCIES int: see above. At first 1
 *   REUSE_FOLLOW_EVENT_DEPENDENCIES, REUSE_ALLOW_OPPORTUNISTIC
 *                             int: kept, and 1 at first, and change nothing: events are not
 * followed, and what has been freed in every stream's sight is there for all
 * CUDA_ERROR_INVALID_VALUE: not a pool, value NULL, an unknown attribute, or a value that it cannot
 * have. */
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value);
CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value);

/* Who can access the pool's memory, all that there is and will be, beside its own device, which
 * always can. map[i].location: another device; flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE, at the
 * same address; or _PROT_NONE, and then no mapping is left when this returns. The work of that
 * device that was given before is waited for. CUDA_ERROR_INVALID_VALUE: not a pool, map NULL, a
 * location that is no device, another flag (there is no access for reading alone), or _PROT_NONE
 * for its own device; CUDA_ERROR_INVALID_DEVICE. On errors nothing changes. */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count);

/* CUDA_ERROR_INVALID_VALUE: a NULL pointer, not a pool, or a location that is no device;
 * CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                    CUmemLocation* location);

/* ---- Pools of other processes
 *
 * What cuda_ipc.h says of memory that processes share holds here, too: who may open it, and until
 * when its pages stay. A descriptor of a pool, and what stands for memory of it, say only what is
 * meant; to open it takes the permission to look into the process that has the pool, while that
 * still runs. */

/* Gives a descriptor of the pool, closed on exec, at *handle_out (an int), which belongs to the
 * caller; it may go to other processes like any (SCM_RIGHTS). Each call gives another one of the
 * same pool. CUDA_ERROR_INVALID_VALUE: handle_out NULL, a handleType other than
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, flags not 0, or not a pool that was created with that
 * type; CUDA_ERROR_OUT_OF_MEMORY: there are 65536 things with handles. */
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags);

/* Makes a pool of such a descriptor, (void*)(uintptr_t)fd, which stays the caller's. Nothing can be
 * allocated from the pool: it takes cuMemPoolImportPointer, cuMemPoolSetAccess, cuMemPoolGetAccess
 * and cuMemPoolDestroy, after which what was imported still is. Its device is the one that it has
 * in its own process, whichever ordinals the two processes have for it; where this process does not
 * see that one, the current context's, or without a context the first. CUDA_ERROR_INVALID_VALUE:
 * pool_out NULL, flags not 0, a handleType that is none, or not a descriptor of a pool that there
 * still is; CUDA_ERROR_NOT_SUPPORTED: a handleType of another system; CUDA_ERROR_INVALID_CONTEXT:
 * the pool is this process's own; CUDA_ERROR_MAP_FAILED: the kernel refuses, with a line in the
 * log; CUDA_ERROR_OPERATING_SYSTEM: it does not tell, as for want of descriptors, with a line in
 * the log. */
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags);

/* Gives what stands for the allocation that begins at ptr, all of it.
 * CUDA_ERROR_INVALID_VALUE: shareData_out NULL, or no memory of a pool that was exported begins at
 * ptr; CUDA_ERROR_OUT_OF_MEMORY as above. */
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr);

/* Maps the allocation for the devices that have access to the imported pool, at *ptr_out, its first
 * byte. Must not be used before the stream that it was allocated in has got there. To be freed with
 * cuMemFree or cuMemFreeAsync, which end the mapping; until then the pool that has it keeps the
 * pages, but may hand them out again as soon as it is freed there: free it here first, as CUDA
 * says. Imported twice it has two addresses. CUDA_ERROR_INVALID_VALUE: a NULL pointer, not an
 * imported pool, or not memory of it that is still allocated; CUDA_ERROR_MAP_FAILED: the kernel
 * refuses, or a device does not answer; CUDA_ERROR_OUT_OF_MEMORY: there are no addresses left. On
 * errors *ptr_out is 0. */
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                        CUmemPoolPtrExportData* shareData);

#endif
