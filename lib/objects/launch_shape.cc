#include "objects/launch_shape.h"

#include "objects/device_attributes.h"

namespace wherry::impl {

std::optional<LaunchSize> size_of(const LaunchShape& shape, const Topology& topology, int device) {
  constexpr CUdevice_attribute grid_max[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  constexpr CUdevice_attribute block_max[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  const auto limit = [&](CUdevice_attribute attribute) {
    return static_cast<unsigned>(device_attribute(attribute, topology, device).value_or(0));
  };
  LaunchSize size;
  for (int i = 0; i < 3; ++i) {
    if (shape.block[i] == 0 || shape.block[i] > limit(block_max[i])) return {};
    size.block_threads *= shape.block[i];
  }
  if (size.block_threads > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) return {};
  std::size_t threads = size.block_threads;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > limit(grid_max[i]) ||
        __builtin_mul_overflow(threads, shape.grid[i], &threads))
      return {};
    size.blocks *= shape.grid[i];
  }
  return size;
}

}  // namespace wherry::impl
