/* Part of cuda.h, which includes it: virtual memory that the program manages itself. It reserves
 * addresses, makes memory, maps the one at the other, and says who may access it. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_VIRTUAL_MEMORY_H
#define WHERRY_CUDA_VIRTUAL_MEMORY_H

/* Memory that has no address yet. 0 is never one. */
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

/* None of these functions needs a current context. The granularity is 2 MiB everywhere: of sizes
 * and of the addresses at which memory is mapped. */

/* ---- Addresses */

/* Reserves `size` bytes of addresses that nothing else gets; nobody can touch them. size: a
 * multiple of the granularity. alignment: a power of two, or 0; addresses are multiples of 2 MiB in
 * any case. addr: where to begin, if that is free and aligned, else it is ignored: "treated as a
 * hint about where to place the reservation"; 0: anywhere. flags: 0. CUDA_ERROR_INVALID_VALUE: ptr
 * NULL, size 0 or no multiple, alignment not as above, addr no multiple of 4 KiB, flags not 0;
 * CUDA_ERROR_OUT_OF_MEMORY: there are no such addresses. */
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags);

/* Gives addresses back: exactly what one cuMemAddressReserve gave, with nothing mapped.
 * CUDA_ERROR_INVALID_VALUE: otherwise. */
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size);

/* ---- Memory */

/* Makes `size` bytes of memory, zeros, all of which are there from now on and stay where they are.
 * prop: type                   CU_MEM_ALLOCATION_TYPE_PINNED requestedHandleTypes
 * CU_MEM_HANDLE_TYPE_NONE, or CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: it can be exported location
 * a device: in that device's pool, beside cuMemAlloc's, and managed memory leaves the pool for it;
 *                          CU_MEM_LOCATION_TYPE_HOST: on the host, id is ignored, and it cannot be
 * exported; CU_MEM_LOCATION_TYPE_HOST_NUMA: on the host's node `id`, if there is room allocFlags
 * compressionType: CU_MEM_ALLOCATION_COMP_GENERIC is a wish that is not fulfilled;
 *                          gpuDirectRDMACapable: 0 or 1, what
 * CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE is to answer; usage and reserved: 0
 *   win32HandleMetaData    NULL
 * size: a multiple of the granularity. flags: 0. The memory is freed when the handle is released as
 * often as it was got, nothing is mapped, and no descriptor of it is open in any process; its room
 * in the pool is free again when this process has no part in it any more. CUDA_ERROR_INVALID_VALUE:
 * a NULL pointer, size 0 or no multiple, flags not 0, or other properties;
 * CUDA_ERROR_INVALID_DEVICE: a device that does not exist; CUDA_ERROR_NOT_PERMITTED:
 * CU_MEM_HANDLE_TYPE_FABRIC; CUDA_ERROR_OUT_OF_MEMORY: the pool has no room, or RLIMIT_FSIZE is
 * less than size. On errors *handle stays. */
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop, unsigned long long flags);

/* Gives one reference to the handle back; the last one ends it. What is mapped stays until it is
 * unmapped. CUDA_ERROR_INVALID_VALUE: not a handle. */
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);

/* The handle of what is mapped at the address, any byte of it: the value that it was mapped with,
 * also when it was released meanwhile. It has one reference more. CUDA_ERROR_INVALID_VALUE: handle
 * NULL, or nothing is mapped there. */
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr);

/* 2 MiB, whatever memory prop describes, also if cuMemCreate makes none of that. option: one of
 * CUmemAllocationGranularity_flags.
 * CUDA_ERROR_INVALID_VALUE: a NULL pointer, or another option; *granularity stays. */
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                               CUmemAllocationGranularity_flags option);

/* What memory was made with; compressionType is CU_MEM_ALLOCATION_COMP_NONE, and
 * requestedHandleTypes of imported memory CU_MEM_HANDLE_TYPE_NONE. CUDA_ERROR_INVALID_VALUE: prop
 * NULL, or not a handle. */
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                        CUmemGenericAllocationHandle handle);

/* ---- Mappings */

/* Maps the memory, all of its `size` bytes, at the addresses [ptr, ptr + size), which lie in one
 * reservation and of which none is mapped. The same memory may be mapped in several places. Nobody
 * can access it until cuMemSetAccess: "Calling cuMemMap does not make the address accessible".
 * offset and flags: 0. CUDA_ERROR_INVALID_VALUE: not a handle, ptr no multiple of the granularity,
 * other addresses, size 0, flags not 0; CUDA_ERROR_NOT_SUPPORTED: another size than the memory's,
 * or an offset. On errors nothing changes. */
CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags);

/* Unmaps all that cuMemMap mapped in [ptr, ptr + size), of any reservations; that may be nothing.
 * No processor has any of it when this returns. If a device has access to any of it, waits for the
 * work of all devices that was given before. CUDA_ERROR_INVALID_VALUE, and nothing changes: ptr or
 * size no multiple of the granularity, size 0, or a mapping of which the range has a part only;
 * CUDA_ERROR_OPERATING_SYSTEM: a device does not answer; what others had they do not have any more,
 * and the range is still mapped. */
CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size);

/* Says who may access the memory mapped at [ptr, ptr + size), whole mappings without a gap: the
 * processor at desc[i].location, as desc[i].flags says (CU_MEM_ACCESS_FLAGS_PROT_NONE, _READ,
 * _READWRITE), from this call on; of others nothing changes. Kernels that access it in another way
 * fail their context with CUDA_ERROR_ILLEGAL_ADDRESS; a thread of the host gets SIGSEGV. The
 * location is a device; or the host, for memory of the host's: CU_MEM_LOCATION_TYPE_HOST, or
 * CU_MEM_LOCATION_TYPE_HOST_NUMA for memory that was made with that; the id of both is ignored.
 * Where a device had more access than it gets, waits for the work of all devices that was given
 * before. CUDA_ERROR_INVALID_VALUE: any other range or flags, a device or type of location that
 * does not exist, desc NULL or count 0; CUDA_ERROR_NOT_SUPPORTED: the host, where it is not as
 * above; CUDA_ERROR_OUT_OF_MEMORY: a process has as many mappings as it may have;
 * CUDA_ERROR_OPERATING_SYSTEM: a device does not answer. On errors nothing changes. */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                size_t count);

/* What the processor at the location may do with the memory mapped at ptr, any byte of it: *flags
 * is one of CUmemAccess_flags. CUDA_ERROR_INVALID_VALUE: a NULL pointer, nothing is mapped there
 * (*flags is CU_MEM_ACCESS_FLAGS_PROT_NONE then), an unknown type of location, or
 * CU_MEM_LOCATION_TYPE_HOST_NUMA for memory that was not made with it; CUDA_ERROR_INVALID_DEVICE: a
 * device that does not exist. */
CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                CUdeviceptr ptr);

/* ---- Sharing with other processes */

/* Gives the memory as a descriptor, which is the caller's to close: *(int*)shareableHandle. Whoever
 * has it has the memory, also when this process has ended. handleType:
 * CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, which the memory was made with. flags: 0.
 * CUDA_ERROR_INVALID_VALUE: shareableHandle NULL, not a handle, memory that was made without it or
 * imported, another type, flags not 0; CUDA_ERROR_OPERATING_SYSTEM: there are no more descriptors.
 */
CUresult CUDAAPI cuMemExportToShareableHandle(void* shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags);

/* Gives a handle of the memory behind a descriptor, osHandle: (void*)(uintptr_t)fd, of this process
 * or another one. The descriptor stays the caller's, and may be closed. The memory is the same
 * wherever it is mapped; its room is that of the process that made it, and counts nothing here. It
 * cannot be exported again; the descriptor can be given on. CUDA_ERROR_INVALID_VALUE: handle NULL,
 * a descriptor that is none or of anything else, an unknown type, or memory of a device or node
 * that does not exist here; CUDA_ERROR_NOT_SUPPORTED: types of other systems. */
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* osHandle,
                                                CUmemAllocationHandleType shHandleType);

#endif
