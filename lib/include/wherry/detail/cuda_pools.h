/* Part of cuda.h, which includes it: devices' own memory that is allocated and freed in stream
 * order. */
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

/* ---- Allocation
 *
 * A pool reserves memory of its device in steps of 32 MiB (2 MiB if there is no space for that),
 * allocates from it, and reuses freed memory. The memory is a device's own, like cuMemAlloc's: it
 * stays in the device's pool, the host cannot access it, and it survives cuDevicePrimaryCtxReset
 * and the end of any context. It is not zeroed between two uses.
 *
 * Freed memory is reused:
 *   - by its stream at once, because work of that stream runs later than the free;
 *   - by all streams when the work that was submitted to the stream before the free has finished;
 *   - by another stream before that, if no other memory is left and
 *     REUSE_ALLOW_INTERNAL_DEPENDENCIES allows it: that stream's work then waits for the free.
 * No function here waits for work. */

/* Allocates `bytesize` bytes from the current pool of the stream's device, for work that is
 * submitted to the stream later, and for all work that is ordered after that. Addresses are
 * multiples of 4 KiB.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr is NULL, or bytesize is 0.
 * - CUDA_ERROR_OUT_OF_MEMORY: the pool may not or cannot grow.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context.
 * - The error of the stream's context.
 * On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream);

/* Allocates like cuMemAllocAsync, from the given pool. It may belong to another device; the
 * stream's device can then access the memory only as cuMemPoolSetAccess permits.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: also if it is not a pool. */
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream);

/* Frees memory of a pool, or of cuMemAlloc, when the work that was submitted to the stream before
 * has finished or has been discarded. dptr is its first address. For this API the memory is free
 * when the call returns: its address has no attributes, and freeing it again is an error. A kernel
 * that accesses it after the free reads and writes memory that may have been reused; after the pool
 * has released it, the access is CUDA_ERROR_ILLEGAL_ADDRESS. cuMemFree accepts memory of pools,
 * too, and then waits as for any other memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr is not the first address of such memory that is live.
 * - CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT: as above.
 * - The error of the stream's context; the memory is not freed then. */
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);

/* ---- Pools */

/* cuDeviceGetDefaultMemPool: the pool that the device has from the start. cuDeviceGetMemPool: the
 * device's current pool, from which cuMemAllocAsync allocates; initially the default pool.
 * cuDeviceSetMemPool: makes another pool the current one.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pool_out is NULL, not a pool, or a pool of another device.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev);
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev);
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);

/* Creates a pool of a device. Properties that are not listed are 0.
 *   - allocType: CU_MEM_ALLOCATION_TYPE_PINNED.
 *   - location: a device.
 *   - maxSize: the most bytes that the pool may reserve, rounded up to 2 MiB; 0: no limit.
 *   - handleTypes: CU_MEM_HANDLE_TYPE_NONE, or CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, which lets
 *     other processes open its memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, or a property has no valid value, for example
 *   another type of handle.
 * - CUDA_ERROR_INVALID_DEVICE.
 * - CUDA_ERROR_NOT_SUPPORTED: CU_MEM_HANDLE_TYPE_FABRIC, managed memory, or the host.
 * - CUDA_ERROR_OUT_OF_MEMORY: there are 118 pools already, the maximum. */
CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps);

/* Destroys the handle. Live allocations stay valid, and the pool's memory is released when all of
 * them are freed. A device whose current pool this is gets its default pool back.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a pool, or a device's default pool. */
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool);

/* Releases memory without live allocations, as long as at least minBytesToKeep bytes stay reserved.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a pool. */
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);

/* Set or get an attribute, at *value:
 *   - RELEASE_THRESHOLD, cuuint64_t: memory that is reserved beyond this many bytes is released, as
 *     by cuMemPoolTrimTo, when a thread waits for a stream, an event or a context. Initially 0.
 *   - RESERVED_MEM_CURRENT, cuuint64_t, cannot be set: the bytes that the pool has reserved of its
 *     device's memory.
 *   - USED_MEM_CURRENT, cuuint64_t, cannot be set: the bytes of it that are allocated, in units of
 *     512 bytes, or freed in a stream that has not reached the free.
 *   - RESERVED_MEM_HIGH, USED_MEM_HIGH, cuuint64_t: the highest values since the attribute was last
 *     set. They can only be set to 0.
 *   - REUSE_ALLOW_INTERNAL_DEPENDENCIES, int: see above. Initially 1.
 *   - REUSE_FOLLOW_EVENT_DEPENDENCIES, int: whether a stream that waits for an event reuses what
 *     other streams have freed before it, although they may not have reached the free. Initially 1.
 *   - REUSE_ALLOW_OPPORTUNISTIC, int: stored, initially 1, without effect: memory whose free all
 *     streams can see is available to all of them.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a pool, value is NULL, an unknown attribute, or an invalid
 * value. */
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value);
CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value);

/* Sets which devices can access the pool's memory, present and future. The pool's own device always
 * can. map[i].location: another device. map[i].flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE, access at
 * the same address; or _PROT_NONE, and then no mapping is left when the call returns. The call
 * waits for the work that was submitted to that device before.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a pool, map is NULL, a location is not a device, other flags
 *   (there is no read-only access), or _PROT_NONE for the pool's own device.
 * - CUDA_ERROR_INVALID_DEVICE.
 * On errors nothing changes. */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count);

/* Returns in *flags the access that the device at *location has to the pool's memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, not a pool, or the location is not a device.
 * - CUDA_ERROR_INVALID_DEVICE. */
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                    CUmemLocation* location);

/* ---- Pools of other processes
 *
 * What cuda_ipc.h says about memory that processes share is true for pools, too: which processes
 * may open it, and how long its pages stay. A descriptor of a pool, and the export data of an
 * allocation, only name the memory. A process that opens it needs the permission to inspect the
 * process that owns the pool, and the owner must still be running. */

/* Returns a descriptor of the pool in *handle_out (an int). The descriptor is close-on-exec and
 * belongs to the caller, which may pass it to other processes (SCM_RIGHTS). Each call returns
 * another descriptor of the same pool.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: handle_out is NULL, handleType is not
 *   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, flags is not 0, or not a pool that was created with
 *   that type.
 * - CUDA_ERROR_OUT_OF_MEMORY: 65536 objects have handles already. */
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags);

/* Opens the pool behind such a descriptor, (void*)(uintptr_t)fd, which still belongs to the caller.
 * The program cannot allocate from the pool: it works with cuMemPoolImportPointer,
 * cuMemPoolSetAccess, cuMemPoolGetAccess and cuMemPoolDestroy; imported allocations survive the
 * latter. The pool's device is the same as in the owning process, whatever ordinals the two
 * processes have for it. If this process does not see that device, it is the current context's
 * device, or without a context the first one.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pool_out is NULL, flags is not 0, an unknown handleType, or not a
 *   descriptor of a pool that still exists.
 * - CUDA_ERROR_NOT_SUPPORTED: a handleType of another operating system.
 * - CUDA_ERROR_INVALID_CONTEXT: the pool is this process's own.
 * - CUDA_ERROR_MAP_FAILED: Linux refuses; a log line says so.
 * - CUDA_ERROR_OPERATING_SYSTEM: a system call failed for another reason, for example because no
 *   descriptors are left; a log line says so. */
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags);

/* Returns the export data of the allocation that begins at ptr; it stands for the whole allocation.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: shareData_out is NULL, or no memory of an exported pool begins at
 *   ptr.
 * - CUDA_ERROR_OUT_OF_MEMORY: as above. */
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr);

/* Maps the allocation for the devices that have access to the imported pool, and returns its first
 * address in *ptr_out. The memory must not be used before the stream in which it was allocated has
 * reached the allocation. It must be freed with cuMemFree or cuMemFreeAsync, which end the mapping.
 * Until then the owning pool keeps the pages, but may reuse them as soon as the owner frees them:
 * as CUDA says, free the memory here first. Memory that is imported twice has two addresses.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, not an imported pool, or not memory of it that is
 *   still allocated.
 * - CUDA_ERROR_MAP_FAILED: Linux refuses, or a device does not respond.
 * - CUDA_ERROR_OUT_OF_MEMORY: no addresses are left.
 * On errors *ptr_out is 0. */
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                        CUmemPoolPtrExportData* shareData);

#endif
