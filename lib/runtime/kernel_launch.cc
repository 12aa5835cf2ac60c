#include "runtime/kernel_launch.h"

#include <cstdint>
#include <utility>

#include "runtime/driver.h"
#include "runtime/grid_arguments.h"
#include "runtime/kernel_attributes.h"

namespace wherry::impl {

CUresult plan_launch(Driver& driver, const Context& context, CUfunction function,
                     const LaunchShape& shape, void** params, void** extra, KernelLaunch& launch) {
  const auto code = find_kernel_code(driver, function, context);
  if (!code) return CUDA_ERROR_INVALID_HANDLE;
  Runtime& runtime = driver.runtime();
  const auto size = size_of(shape, runtime.topology(), context.device.ordinal);
  const bool is_packed = extra != nullptr && *extra != CU_LAUNCH_PARAM_END;
  if (!size || (is_packed && (params != nullptr || code->params.sizes == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  const wherryLaunchInfo info{0,
                              0,
                              size->threads(),
                              {shape.grid[0], shape.grid[1], shape.grid[2]},
                              {shape.block[0], shape.block[1], shape.block[2]},
                              shape.shared_bytes};
  GridArguments arguments(code->entry, info);
  if (is_packed ? !arguments.add_packed(extra, code->params)
                : !arguments.add(params, code->params, runtime))
    return CUDA_ERROR_INVALID_VALUE;
  launch.arguments = arguments.take();
  if (launch.arguments.size() > WHERRY_MAX_ARGS_SIZE) return CUDA_ERROR_INVALID_VALUE;
  launch.function = function;
  launch.shape = shape;
  launch.blocks = size->blocks;
  launch.subject = reinterpret_cast<KernelFunction>(reinterpret_cast<std::uintptr_t>(code->entry));
  return CUDA_SUCCESS;
}

KeptLaunch::KeptLaunch(KernelLaunch kept)
    : launch(std::move(kept)), params(grid_params(launch.arguments)) {}

WorkStatus run(const StreamHandle& stream, KernelLaunch launch) {
  return stream.context->device.engine.launch(stream.stream, run_grid, std::move(launch.arguments),
                                              launch.blocks, launch.subject);
}

}  // namespace wherry::impl
