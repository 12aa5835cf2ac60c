/* Part of cuda.h, which includes it: attributes of the memory that a pointer points to. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_POINTERS_H
#define WHERRY_CUDA_POINTERS_H

typedef enum CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS_enum {
  CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE = 0x0,
  CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ = 0x1,
  CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE = 0x3
} CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS;

typedef struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_st {
  unsigned long long p2pToken;
  unsigned int vaSpaceToken;
} CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1;
typedef CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1 CUDA_POINTER_ATTRIBUTE_P2P_TOKENS;

/* Returns an attribute of the memory that contains `ptr`, which may be any byte of it. Known memory
 * is all memory that a function of this library has allocated or registered and that has not been
 * freed. Takes no lock, so many threads may call it often.
 *   - CONTEXT, CUcontext: the context that was current at the allocation. NULL: memory of pools,
 *     variables, and memory mapped with cuMemMap.
 *   - MEMORY_TYPE, unsigned: CU_MEMORYTYPE_DEVICE, also for managed memory, or CU_MEMORYTYPE_HOST.
 *   - DEVICE_POINTER, CUdeviceptr: the address of the byte for kernels. CUDA_ERROR_INVALID_CONTEXT:
 *     there is no current context. NULL and CUDA_ERROR_INVALID_VALUE: the current context's device
 *     may not access the memory, which is mapped with cuMemMap.
 *   - HOST_POINTER, void*: the address of the byte for the host. NULL and CUDA_ERROR_INVALID_VALUE:
 *     the host has no address for it, or no access.
 *   - P2P_TOKENS, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS: the tokens for wherryGetP2PPages; also sets
 *     SYNC_MEMOPS. CUDA_ERROR_INVALID_VALUE: also host memory.
 *   - SYNC_MEMOPS, unsigned, 0 or 1: initially 1 for managed memory, else 0.
 *   - BUFFER_ID, unsigned long long: a number that no other allocation of this process ever has.
 *   - IS_MANAGED, MAPPED, unsigned, 0 or 1.
 *   - DEVICE_ORDINAL, int: the device that holds the memory, or in whose context it was allocated.
 *     CU_DEVICE_CPU: host memory mapped with cuMemMap.
 *   - IS_LEGACY_CUDA_IPC_CAPABLE, IS_GPU_DIRECT_RDMA_CAPABLE, IS_HW_DECOMPRESS_CAPABLE, unsigned: 1
 *     for memory of cuMemAlloc; the second is also 1 for memory created with gpuDirectRDMACapable.
 *     The last is a property of the memory; no device here can decompress.
 *   - RANGE_START_ADDR (void*), RANGE_SIZE (size_t): the allocation, with its requested size. For
 *     memory mapped with cuMemMap: the reservation; its addresses are only known where memory is
 *     mapped.
 *   - ALLOWED_HANDLE_TYPES, unsigned long long: the types of handles as which it can be exported.
 *   - ACCESS_FLAGS, unsigned: CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE. For memory mapped with
 *     cuMemMap: the access of the current context's device. CUDA_ERROR_INVALID_CONTEXT: there is no
 *     current context.
 *   - MEMPOOL_HANDLE, CUmemoryPool: the pool from which it was allocated, or NULL.
 *   - MAPPING_BASE_ADDR (void*), MAPPING_SIZE (size_t): the mapping that contains it, of which it
 *     may be a part.
 *   - MEMORY_BLOCK_ID, unsigned long long: the same for all memory of one mapping. For memory
 *     mapped with cuMemMap: its handle.
 * Needs no context, except as stated above.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: data is NULL, an unknown attribute, or an address that is not known.
 *   Nothing is written then. */
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr);

/* Returns numAttributes attributes of one pointer, attributes[i] in data[i]. An address that is not
 * known is no error: its HOST_POINTER is the address itself, its DEVICE_ORDINAL is
 * CU_DEVICE_INVALID, its range is not written, and all other attributes are 0 or NULL. For known
 * memory, an attribute that cuPointerGetAttribute refuses is 0 or NULL, too.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE, and nothing is written: numAttributes is 0, or an array or an element
 *   of `data` is NULL.
 * - CUDA_ERROR_INVALID_VALUE, and the attributes before it are written: an unknown attribute. */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                        void** data, CUdeviceptr ptr);

/* Sets SYNC_MEMOPS, the only attribute that can be set, for the whole allocation: *value is an
 * unsigned, 0 or not 0. While it is set, synchronous copies and fills of the memory return only
 * when they are done.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: value is NULL, another attribute, or an address that is not known.
 * - CUDA_ERROR_NOT_SUPPORTED: memory mapped with cuMemMap. */
CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr ptr);

#endif
