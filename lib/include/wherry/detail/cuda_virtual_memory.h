/* Part of cuda.h, which includes it: virtual memory management. The program reserves addresses,
 * creates memory, maps the memory at the addresses, and sets which processors may access it. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_VIRTUAL_MEMORY_H
#define WHERRY_CUDA_VIRTUAL_MEMORY_H

/* A handle of memory without an address. 0 is never a valid handle. */
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef CUmemGenericAllocationHandle_v1 CUmemGenericAllocationHandle;

typedef enum CUmemAllocationGranularity_flags_enum {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0x0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 0x1
} CUmemAllocationGranularity_flags;

typedef enum CUmemAllocationCompType_enum {
  CU_MEM_ALLOCATION_COMP_NONE = 0x0,
  CU_MEM_ALLOCATION_COMP_GENERIC = 0x1
} CUmemAllocationCompType;

#define CU_MEM_CREATE_USAGE_TILE_POOL 0x1
#define CU_MEM_CREATE_USAGE_HW_DECOMPRESS 0x2

typedef struct CUmemAllocationProp_st {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
} CUmemAllocationProp_v1;
typedef CUmemAllocationProp_v1 CUmemAllocationProp;

/* These functions need no current context. The granularity of sizes, and of the addresses at which
 * memory is mapped, is always 2 MiB. */

/* ---- Addresses */

/* Reserves `size` bytes of addresses, which nothing else uses and no processor can access. size: a
 * multiple of the granularity. alignment: a power of two, or 0; addresses are multiples of 2 MiB in
 * any case. addr: where to begin if those addresses are free and aligned, else it is ignored:
 * "treated as a hint about where to place the reservation"; 0: anywhere. flags: 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: ptr is NULL, size is 0 or not a multiple, alignment is not as above,
 *   addr is not a multiple of 4 KiB, or flags is not 0.
 * - CUDA_ERROR_OUT_OF_MEMORY: there are no such addresses. */
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags);

/* Releases addresses: exactly the range of one cuMemAddressReserve, with nothing mapped in it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: any other range. */
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size);

/* ---- Memory */

/* Creates `size` bytes of memory, initially zero. All of its pages exist from now on and do not
 * move. prop:
 *   - type: CU_MEM_ALLOCATION_TYPE_PINNED.
 *   - requestedHandleTypes: CU_MEM_HANDLE_TYPE_NONE, or CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
 *     the memory can be exported.
 *   - location: a device: in that device's pool, like cuMemAlloc's memory; managed memory is
 *     evicted from the pool for it. CU_MEM_LOCATION_TYPE_HOST: on the host; id is ignored, and the
 *     memory cannot be exported. CU_MEM_LOCATION_TYPE_HOST_NUMA: on the host's NUMA node `id`, if
 *     that has free memory.
 *   - allocFlags: compressionType: CU_MEM_ALLOCATION_COMP_GENERIC is accepted without effect.
 *     gpuDirectRDMACapable: 0 or 1, the value that CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
 *     returns. usage and reserved: 0.
 *   - win32HandleMetaData: NULL.
 * size: a multiple of the granularity. flags: 0. The memory is freed when all references to the
 * handle have been released, it is mapped nowhere, and no process has an open descriptor of it. Its
 * space in the pool is free again when this process no longer uses it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, size is 0 or not a multiple, flags is not 0, or
 *   other properties.
 * - CUDA_ERROR_INVALID_DEVICE: a device that does not exist.
 * - CUDA_ERROR_NOT_PERMITTED: CU_MEM_HANDLE_TYPE_FABRIC.
 * - CUDA_ERROR_OUT_OF_MEMORY: the pool has no space, or RLIMIT_FSIZE is less than size.
 * On errors *handle does not change. */
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop, unsigned long long flags);

/* Releases one reference to the handle; releasing the last one ends the handle. Mapped memory stays
 * mapped until it is unmapped.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a handle. */
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);

/* Returns the handle of the memory that is mapped at the address, which may be any byte of it: the
 * value with which it was mapped, even if that has been released since. Adds one reference to it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: handle is NULL, or nothing is mapped there. */
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr);

/* Returns 2 MiB, whatever memory prop describes, also if cuMemCreate does not support it. option:
 * one of CUmemAllocationGranularity_flags.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, or another option; *granularity does not
 * change. */
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                               CUmemAllocationGranularity_flags option);

/* Returns the properties with which the memory was created, except that compressionType is
 * CU_MEM_ALLOCATION_COMP_NONE, and that requestedHandleTypes of imported memory is
 * CU_MEM_HANDLE_TYPE_NONE.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: prop is NULL, or not a handle. */
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                        CUmemGenericAllocationHandle handle);

/* ---- Mappings */

/* Maps all `size` bytes of the memory at the addresses [ptr, ptr + size), which lie in one
 * reservation and are not mapped yet. The same memory may be mapped at several addresses. No
 * processor can access it until cuMemSetAccess: "Calling cuMemMap does not make the address
 * accessible". offset and flags: 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a handle, ptr is not a multiple of the granularity, other
 *   addresses, size is 0, or flags is not 0.
 * - CUDA_ERROR_NOT_SUPPORTED: size is not the memory's size, or offset is not 0.
 * On errors nothing changes. */
CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags);

/* Unmaps everything that cuMemMap has mapped in [ptr, ptr + size), in any reservations; the range
 * may contain no mapping. When the call returns no processor can access any of it. If a device has
 * access to any of it, the call waits for the work of all devices that was submitted before.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE, and nothing changes: ptr or size is not a multiple of the
 *   granularity, size is 0, or the range contains only a part of a mapping.
 * - CUDA_ERROR_OPERATING_SYSTEM: a device does not respond. The other processors have lost their
 *   access, and the range is still mapped. */
CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size);

/* Sets which processors may access the memory mapped at [ptr, ptr + size), which must be whole
 * mappings without a gap. From this call on, the processor at desc[i].location has the access
 * desc[i].flags (CU_MEM_ACCESS_FLAGS_PROT_NONE, _READ, _READWRITE). Nothing changes for other
 * processors. A kernel whose access is not permitted fails its context with
 * CUDA_ERROR_ILLEGAL_ADDRESS; a thread of the host gets SIGSEGV. If a device loses access, the call
 * waits for the work of all devices that was submitted before.
 *
 * The location is a device, or for memory on the host also the host: CU_MEM_LOCATION_TYPE_HOST, or
 * CU_MEM_LOCATION_TYPE_HOST_NUMA for memory that was created with that type; the id of both is
 * ignored.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: any other range or flags, a device or type of location that does not
 *   exist, desc is NULL, or count is 0.
 * - CUDA_ERROR_NOT_SUPPORTED: the host, where it is not as above.
 * - CUDA_ERROR_OUT_OF_MEMORY: a process has reached its limit of mappings.
 * - CUDA_ERROR_OPERATING_SYSTEM: a device does not respond.
 * On errors nothing changes. */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                size_t count);

/* Returns in *flags the access (one of CUmemAccess_flags) that the processor at the location has to
 * the memory mapped at ptr, which may be any byte of it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL, nothing is mapped there (then *flags is
 *   CU_MEM_ACCESS_FLAGS_PROT_NONE), an unknown type of location, or CU_MEM_LOCATION_TYPE_HOST_NUMA
 *   for memory that was not created with it.
 * - CUDA_ERROR_INVALID_DEVICE: a device that does not exist. */
CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                CUdeviceptr ptr);

/* ---- Sharing with other processes */

/* Returns a descriptor of the memory in *(int*)shareableHandle, which the caller must close. Every
 * process that has the descriptor has the memory, even after this process has ended. handleType:
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, with which the memory must have been created. flags: 0.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: shareableHandle is NULL, not a handle, memory that was created
 *   without the type or was imported, another type, or flags is not 0.
 * - CUDA_ERROR_OPERATING_SYSTEM: no descriptors are left. */
CUresult CUDAAPI cuMemExportToShareableHandle(void* shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags);

/* Returns a handle of the memory behind a descriptor of this process or another one. osHandle:
 * (void*)(uintptr_t)fd. The descriptor still belongs to the caller, and may be closed. The memory
 * is the same wherever it is mapped. It counts against the pool of the process that created it, not
 * against pools of this process. It cannot be exported again; the descriptor can be passed on.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: handle is NULL, a descriptor that is invalid or of anything else, an
 *   unknown type, or memory of a device or node that does not exist here.
 * - CUDA_ERROR_NOT_SUPPORTED: types of other operating systems. */
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* osHandle,
                                                CUmemAllocationHandleType shHandleType);

#endif
