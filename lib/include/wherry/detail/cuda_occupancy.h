/* Part of cuda.h, which includes it: occupancy, the part of a device that a launch keeps busy. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_OCCUPANCY_H
#define WHERRY_CUDA_OCCUPANCY_H

/* A device's multiprocessors are its workers, threads that run kernels. A worker runs one piece of
 * a launch at a time, and the piece's threads one after the other, whatever the blocks' size and
 * shared memory. So at most one block is active on each.
 *
 * Errors of all functions of this file:
 * - CUDA_ERROR_INVALID_HANDLE: neither a function nor a kernel.
 * - CUDA_ERROR_INVALID_CONTEXT. */

typedef enum CUoccupancy_flags_enum {
  CU_OCCUPANCY_DEFAULT = 0x0,
  CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 0x1
} CUoccupancy_flags;

typedef size_t(CUDA_CB* CUoccupancyB2DSize)(int blockSize);

/* Return in *numBlocks how many blocks of blockSize threads are active on a multiprocessor: 1, or 0
 * if a block cannot have that many threads. flags: CUoccupancy_flags, without effect here.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: numBlocks is NULL, blockSize is not positive, or other flags. */
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func,
                                                             int blockSize, size_t dynamicSMemSize);
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags);

/* Return in *blockSize the largest possible block, or blockSizeLimit if that is less and not 0; and
 * in *minGridSize as many blocks as the device has multiprocessors. Shared memory limits nothing,
 * so blockSizeToDynamicSMemSize, which may be NULL, is not called.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: one of the first two pointers is NULL, blockSizeLimit is negative, or
 *   other flags. */
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                  size_t dynamicSMemSize, int blockSizeLimit);
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags);

/* Returns CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK in *dynamicSmemSize, in bytes: 0, because
 * there is no shared memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dynamicSmemSize is NULL, blockSize is not positive or more than a
 *   block may have, or numBlocks is not 1, the blocks of a multiprocessor. */
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize);

#endif
