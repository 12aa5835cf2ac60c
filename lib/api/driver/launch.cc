// The C functions that launch kernels of modules and libraries.
#include "api/entry.h"
#include "runtime/grid_arguments.h"
#include "runtime/kernel_attributes.h"
#include "runtime/launch_shape.h"

using namespace wherry::impl;

namespace {

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream argument, void** params,
                void** extra) {
  return enter([&](Driver& driver) {
    StreamHandle stream;
    const CUresult found = find_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    const auto code = find_kernel_code(driver, handle, *stream.context);
    if (!code) return CUDA_ERROR_INVALID_HANDLE;
    Runtime& runtime = driver.runtime();
    const auto size = size_of(shape, runtime.topology(), stream.context->device.ordinal);
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
    std::vector<std::byte> block = arguments.take();
    const auto subject =
        reinterpret_cast<KernelFunction>(reinterpret_cast<std::uintptr_t>(code->entry));
    return launched(driver, stream,
                    stream.context->device.engine.launch(stream.stream, run_grid, std::move(block),
                                                         size->blocks, subject));
  });
}

CUresult launch(const CUlaunchConfig* config, CUfunction handle, CUstream argument, void** params,
                void** extra) {
  for (unsigned i = 0; config->attrs != nullptr && i < config->numAttrs; ++i)
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_IGNORE)
      return enter([](Driver&) { return CUDA_ERROR_NOT_SUPPORTED; });
  return launch(handle,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes},
                argument, params, extra);
}

bool is_config(const CUlaunchConfig* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr);
}

CUresult refuse_config() {
  return enter([](Driver&) { return CUDA_ERROR_INVALID_VALUE; });
}

}  // namespace

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void** kernelParams, void** extra) {
  return launch(f,
                {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes},
                hStream, kernelParams, extra);
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                             unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                             void** kernelParams, void** extra) {
  return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                        sharedMemBytes, per_thread(hStream), kernelParams, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                          void** extra) {
  if (!is_config(config)) return refuse_config();
  return launch(config, f, config->hStream, kernelParams, extra);
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** kernelParams,
                               void** extra) {
  if (!is_config(config)) return refuse_config();
  return launch(config, f, per_thread(config->hStream), kernelParams, extra);
}
