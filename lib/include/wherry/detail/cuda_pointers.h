/* Part of cuda.h, which includes it: what a pointer points to. */
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

/* Tells of the memory that `ptr`, any byte of it, lies in. Known is what any function of this
 * library allocated or registered and has not freed; without a lock, so it may be asked often and
 * by many threads. CONTEXT                     CUcontext: the one that was current when it was
 * allocated; NULL: of pools, variables, and what is mapped by hand (cuMemMap) MEMORY_TYPE unsigned:
 * CU_MEMORYTYPE_DEVICE, also of managed memory, or CU_MEMORYTYPE_HOST DEVICE_POINTER CUdeviceptr:
 * where kernels have that byte. CUDA_ERROR_INVALID_CONTEXT: none is current; NULL and
 * CUDA_ERROR_INVALID_VALUE: the current context's device may not access what is mapped by hand
 *   HOST_POINTER                void*: where the host has it; NULL and CUDA_ERROR_INVALID_VALUE:
 * nowhere, or it has no access P2P_TOKENS                  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS, for
 * wherryP2PGetPages; sets SYNC_MEMOPS. Of host memory also CUDA_ERROR_INVALID_VALUE SYNC_MEMOPS
 * unsigned, 0 or 1: at first 1 of managed memory, else 0 BUFFER_ID                   unsigned long
 * long: a number that no other allocation of this process ever has IS_MANAGED, MAPPED unsigned, 0
 * or 1 DEVICE_ORDINAL              int: the device it is on, or whose context it was allocated in;
 * CU_DEVICE_CPU: host memory that is mapped by hand IS_LEGACY_CUDA_IPC_CAPABLE,
 * IS_GPU_DIRECT_RDMA_CAPABLE, IS_HW_DECOMPRESS_CAPABLE unsigned: 1 of what cuMemAlloc allocated;
 * the second one of what was made with gpuDirectRDMACapable, too. The last is a property that
 * memory has, no device here can decompress RANGE_START_ADDR, RANGE_SIZE void* and size_t: of the
 * allocation, as asked for; of what is mapped by hand: of the reservation; where nothing is mapped
 * it is not known ALLOWED_HANDLE_TYPES        unsigned long long: what it can be exported as
 *   ACCESS_FLAGS                unsigned: CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; of what is
 * mapped by hand: what the device of the current context may do. CUDA_ERROR_INVALID_CONTEXT: none
 * is current MEMPOOL_HANDLE              CUmemoryPool: the pool it came from, or NULL
 *   MAPPING_BASE_ADDR, MAPPING_SIZE
 *                               void* and size_t: what was mapped at once, of which it may be a
 * part MEMORY_BLOCK_ID             unsigned long long: the same for all that was mapped at once; of
 * what is mapped by hand: its handle Needs no context but where it says so.
 * CUDA_ERROR_INVALID_VALUE: data NULL, an unknown attribute, or an address that is not known;
 * nothing is written. */
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr);

/* Gives numAttributes attributes of one pointer, attributes[i] in data[i]. An address that is not
 * known is no error: of it HOST_POINTER is the address itself, DEVICE_ORDINAL CU_DEVICE_INVALID,
 * the range is not written, and all else is 0 or NULL; and what cuPointerGetAttribute refuses of
 * one that is known is 0 or NULL, too. CUDA_ERROR_INVALID_VALUE: numAttributes 0, an array or an
 * element of `data` NULL, and nothing is written; or an unknown attribute, and those before it are.
 */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                        void** data, CUdeviceptr ptr);

/* Sets SYNC_MEMOPS, the one attribute that can be set, of the whole allocation: *value is an
 * unsigned, 0 or not 0. While it is set, synchronous copies and fills of the memory return only
 * when they are done. CUDA_ERROR_INVALID_VALUE: value NULL, another attribute, or an address that
 * is not known; CUDA_ERROR_NOT_SUPPORTED: memory that is mapped by hand. */
CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr ptr);

#endif
