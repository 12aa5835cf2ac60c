#include "objects/kernel_launch.h"

#include <cstdint>
#include <utility>

#include "objects/device_attributes.h"
#include "objects/driver.h"
#include "objects/failures/last_failure.h"
#include "objects/grid_arguments.h"
#include "objects/kernel_attributes.h"

namespace wherry::impl {

namespace {

std::size_t most_blocks_at_once(Runtime& runtime, const Context& context) {
  const auto attribute = [&](CUdevice_attribute which) {
    const auto value = device_attribute(which, runtime.topology(), context.device.ordinal);
    return static_cast<std::size_t>(value.value_or(0));
  };
  return attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) *
         attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

CUresult refuse_shape(const LaunchShape& shape) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the device has no grids of {} x {} x {} blocks of {} x {} x {} threads; see its "
              "attributes MAX_GRID_DIM, MAX_BLOCK_DIM and MAX_THREADS_PER_BLOCK",
              shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
              shape.block[2]);
}

}  // namespace

CUresult plan_launch(Driver& driver, const Context& context, CUfunction function,
                     const LaunchShape& shape, void** params, void** extra, KernelLaunch& launch) {
  const auto code = find_kernel_code(driver, function, context);
  if (!code) return refuse_code(function);
  Runtime& runtime = driver.runtime();
  const auto size = size_of(shape, runtime.topology(), context.device.ordinal);
  const bool is_packed = extra != nullptr && *extra != CU_LAUNCH_PARAM_END;
  if (!size) return refuse_shape(shape);
  if (is_packed && params != nullptr)
    return fail(CUDA_ERROR_INVALID_VALUE, "both kernelParams and extra are given; pass one");
  if (is_packed && code->params.sizes == nullptr)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "kernel {} is given its parameters by extra, and does not declare their sizes; "
                "write WHERRY_KERNEL_PARAMS({}, ...) beside it",
                code->name, code->name);
  const wherryLaunchInfo info{0,
                              0,
                              size->threads(),
                              {shape.grid[0], shape.grid[1], shape.grid[2]},
                              {shape.block[0], shape.block[1], shape.block[2]},
                              shape.shared_bytes};
  // The blocks of a cooperative launch wait for each other, so each needs a worker.
  if (shape.is_cooperative && size->blocks > most_blocks_at_once(runtime, context))
    return fail(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                "{} blocks wait for each other, and the device runs {} at once; launch fewer, or "
                "raise workers in WHERRY_DEVICES",
                size->blocks, most_blocks_at_once(runtime, context));
  GridArguments arguments(code->entry, info,
                          shape.is_cooperative ? static_cast<std::uint32_t>(size->blocks) : 0);
  if (is_packed ? !arguments.add_packed(extra, code->params)
                : !arguments.add(params, code->params, runtime))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the parameters of kernel {} are missing, or not those that it declares ({}), or "
                "more than 32764 bytes; compare them with its WHERRY_KERNEL_PARAMS",
                code->name, code->params.count);
  launch.arguments = arguments.take();
  launch.function = function;
  launch.shape = shape;
  launch.blocks = size->blocks;
  launch.subject = reinterpret_cast<KernelFunction>(reinterpret_cast<std::uintptr_t>(code->entry));
  return CUDA_SUCCESS;
}

KeptLaunch::KeptLaunch(KernelLaunch kept)
    : launch(std::move(kept)), params(grid_params(launch.arguments)) {}

WorkStatus run(const StreamHandle& stream, KernelLaunch launch) {
  Device& device = stream.context->device;
  const auto start = [&] {
    return device.engine.launch(stream.stream, run_grid, std::move(launch.arguments), launch.blocks,
                                launch.subject);
  };
  if (!launch.shape.is_cooperative) return start();
  // If two cooperative launches had some of the workers each, both would wait for ever.
  const LockGuard guard(device.cooperative_lock);
  const std::shared_ptr<Recording> before = device.last_cooperative;
  WorkStatus status = WorkStatus::ok;
  if (before && !device.engine.query(*before))
    status = device.engine.wait_for(stream.stream, before);
  if (status == WorkStatus::ok) status = start();
  const auto end = std::make_shared<Recording>();
  if (status == WorkStatus::ok) status = device.engine.record(stream.stream, end);
  if (status == WorkStatus::ok) device.last_cooperative = end;
  return status;
}

}  // namespace wherry::impl
