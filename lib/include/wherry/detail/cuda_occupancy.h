/* Part of cuda.h, which includes it: occupancy, how much of a device a launch keeps busy. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_OCCUPANCY_H
#define WHERRY_CUDA_OCCUPANCY_H

/* A device's multiprocessors are its workers, threads that run kernels. A worker runs one piece of
 * a launch at a time, one thread of it after the other, whatever the blocks' size and shared
 * memory. So at most one block is active on each.
 *
 * True of all of them: CUDA_ERROR_INVALID_HANDLE: neither a function nor a kernel;
 * CUDA_ERROR_INVALID_CONTEXT. */

typedef enum CUoccupancy_flags_enum {
  CU_OCCUPANCY_DEFAULT = 0x0,
  CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 0x1
} CUoccupancy_flags;

typedef size_t(CUDA_CB* CUoccupancyB2DSize)(int blockSize);

/* *numBlocks: how many blocks of blockSize threads are active on a multiprocessor: 1, or 0 where a
 * block cannot have so many. flags: CUoccupancy_flags, which mean nothing here.
 * CUDA_ERROR_INVALID_VALUE: numBlocks NULL, blockSize not positive, or other flags. */
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func,
                                                             int blockSize, size_t dynamicSMemSize);
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags);

/* *blockSize: the largest block there may be, or blockSizeLimit where that is less and not 0;
 * *minGridSize: as many of them as the device has multiprocessors. Shared memory limits nothing, so
 * blockSizeToDynamicSMemSize, which may be NULL, is not called. CUDA_ERROR_INVALID_VALUE: one of
 * the first two NULL, blockSizeLimit negative, or other flags. */
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                  size_t dynamicSMemSize, int blockSizeLimit);
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags);

/* *dynamicSmemSize: CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, in bytes: 0, there is none.
 * CUDA_ERROR_INVALID_VALUE: dynamicSmemSize NULL, blockSize not positive or more than a block may
 * have, or numBlocks not the one that a multiprocessor has. */
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize);

#endif
