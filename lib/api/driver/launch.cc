// The C functions that launch kernels of modules and libraries.
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/kernel_launch.h"

using namespace wherry::impl;

namespace {

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream argument, void** params,
                void** extra, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    WorkStream stream;
    const CUresult found = find_work_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    KernelLaunch launch;
    const CUresult planned =
        plan_launch(driver, *stream.context, handle, shape, params, extra, launch);
    if (planned != CUDA_SUCCESS) return planned;
    if (stream.is_captured)
      return driver.captures().add(stream, kernel_content(stream.context, std::move(launch)));
    return launched(driver, stream, run(stream, std::move(launch)));
  });
}

CUresult launch(const CUlaunchConfig* config, CUfunction handle, CUstream argument, void** params,
                void** extra, const char* call = __builtin_FUNCTION()) {
  bool is_cooperative = false;
  for (unsigned i = 0; config->attrs != nullptr && i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      is_cooperative = attribute.value.cooperative != 0;
    else if (attribute.id != CU_LAUNCH_ATTRIBUTE_IGNORE)
      return enter(call, [&](Driver&) {
        return fail(CUDA_ERROR_NOT_SUPPORTED, "launch attribute {} is not supported; leave it out",
                    static_cast<int>(attribute.id));
      });
  }
  return launch(handle,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes,
                 is_cooperative},
                argument, params, extra, call);
}

bool is_config(const CUlaunchConfig* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr);
}

CUresult refuse_config(const char* call = __builtin_FUNCTION()) {
  return enter(call, [](Driver&) { return refuse_null("config, or its attrs,"); });
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

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void** kernelParams) {
  return launch(f,
                {{gridDimX, gridDimY, gridDimZ},
                 {blockDimX, blockDimY, blockDimZ},
                 sharedMemBytes,
                 /*is_cooperative=*/true},
                hStream, kernelParams, nullptr);
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
