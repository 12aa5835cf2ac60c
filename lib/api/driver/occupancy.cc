// The C functions that tell how much of a device a launch occupies. A worker runs one block at a
// time.
#include "api/entry.h"
#include "objects/device_attributes.h"
#include "objects/kernel_attributes.h"

using namespace wherry::impl;

namespace {

constexpr unsigned occupancy_flags = CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE;

// Runs body(of_device) if the function or kernel exists; of_device(attribute) returns an attribute
// of its device.
template <typename Body>
CUresult enter_code(CUfunction argument, const Body& body,
                    const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    if (!find_kernel_code(driver, argument, *context)) return refuse_code(argument);
    return body([&](CUdevice_attribute attribute) {
      return *device_attribute(attribute, driver.runtime().topology(), context->device.ordinal);
    });
  });
}

CUresult count_blocks(int* blocks, CUfunction function, int block_size, unsigned flags,
                      const char* call = __builtin_FUNCTION()) {
  return enter_code(
      function,
      [&](const auto& of_device) {
        if (blocks == nullptr) return refuse_null("numBlocks");
        if (block_size <= 0)
          return fail(CUDA_ERROR_INVALID_VALUE, "blockSize is {}; pass at least 1", block_size);
        if ((flags & ~occupancy_flags) != 0) return refuse_bits(flags, occupancy_flags);
        *blocks = block_size <= of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
                      ? of_device(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)
                      : 0;
        return CUDA_SUCCESS;
      },
      call);
}

CUresult suggest(int* grid_size, int* block_size, CUfunction function, int limit, unsigned flags,
                 const char* call = __builtin_FUNCTION()) {
  return enter_code(
      function,
      [&](const auto& of_device) {
        if (grid_size == nullptr) return refuse_null("minGridSize");
        if (block_size == nullptr) return refuse_null("blockSize");
        if (limit < 0)
          return fail(CUDA_ERROR_INVALID_VALUE, "blockSizeLimit is {}; pass 0 for no limit", limit);
        if ((flags & ~occupancy_flags) != 0) return refuse_bits(flags, occupancy_flags);
        const int largest = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        *block_size = limit != 0 && limit < largest ? limit : largest;
        *grid_size = of_device(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) *
                     of_device(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        return CUDA_SUCCESS;
      },
      call);
}

}  // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t /*dynamicSMemSize*/) {
  return count_blocks(numBlocks, func, blockSize, CU_OCCUPANCY_DEFAULT);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func,
                                                              int blockSize,
                                                              size_t /*dynamicSMemSize*/,
                                                              unsigned int flags) {
  return count_blocks(numBlocks, func, blockSize, flags);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize /*blockSizeToDynamicSMemSize*/,
                                          size_t /*dynamicSMemSize*/, int blockSizeLimit) {
  return suggest(minGridSize, blockSize, func, blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize /*blockSizeToDynamicSMemSize*/, size_t /*dynamicSMemSize*/,
    int blockSizeLimit, unsigned int flags) {
  return suggest(minGridSize, blockSize, func, blockSizeLimit, flags);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func,
                                                 int numBlocks, int blockSize) {
  return enter_code(func, [&](const auto& of_device) {
    if (dynamicSmemSize == nullptr) return refuse_null("dynamicSmemSize");
    const int blocks = of_device(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    const int largest = of_device(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (numBlocks != blocks || blockSize <= 0 || blockSize > largest)
      return fail(
          CUDA_ERROR_INVALID_VALUE,
          "a multiprocessor does not run {} blocks of {} threads; pass {} blocks of 1 to {}",
          numBlocks, blockSize, blocks, largest);
    *dynamicSmemSize =
        static_cast<std::size_t>(of_device(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    return CUDA_SUCCESS;
  });
}
