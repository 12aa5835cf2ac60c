#include "runtime/launch_shape.h"

#include "runtime/device_attributes.h"

namespace wherry::impl {

std::optional<std::size_t> count_threads(const LaunchShape& shape, const Topology& topology,
                                         int device) {
  constexpr CUdevice_attribute grid_max[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  constexpr CUdevice_attribute block_max[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
  const auto limit = [&](CUdevice_attribute attribute) {
    return static_cast<unsigned>(device_attribute(attribute, topology, device).value_or(0));
  };
  std::size_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.block[i] == 0 || shape.block[i] > limit(block_max[i])) return {};
    threads *= shape.block[i];
  }
  if (threads > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) return {};
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.grid[i] > limit(grid_max[i]) ||
        __builtin_mul_overflow(threads, shape.grid[i], &threads))
      return {};
  }
  return threads;
}

}  // namespace wherry::impl
