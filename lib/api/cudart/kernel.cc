// The runtime API's functions of kernels. A function argument is a kernel's handle, or the address
// of its code.
#include <atomic>
#include <climits>
#include <string>

#include "api/cudart/entry.h"
#include "api/entry.h"
#include "api/registered_code.h"
#include "base/demangle.h"
#include "base/log.h"
#include "objects/launch_shape.h"

using namespace wherry::impl;

namespace {

constexpr CUresult no_such_function = CUDA_ERROR_INVALID_HANDLE;

// Logs the reason once for a program, because many programs do not check for launch errors.
void say_why_it_does_not_run(const std::string& name) {
  static std::atomic<bool> is_said = false;
  if (is_said.exchange(true)) return;
  log_line(
      "kernel {} does not run, nor do other kernels that nvcc compiled: they are GPU code "
      "(cudaErrorNoKernelImageForDevice); write kernels as C++ functions, see "
      "docs/variables-and-modules.md",
      demangle(name));
}

CUresult find_kernel(const void* function, CUkernel& kernel,
                     const char* call = __builtin_FUNCTION()) {
  if (const auto name = RegisteredCode::of_process().find_kernel(function)) {
    say_why_it_does_not_run(*name);
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU,
                "kernel {} is GPU code; compile it with wherry nvcc (docs/cuda-sources.md)",
                demangle(*name));
  }
  return enter(call, [&](Driver& driver) {
    const auto address = reinterpret_cast<std::uintptr_t>(function);
    kernel = reinterpret_cast<CUkernel>(address);
    if (driver.libraries().find_kernel(kernel)) return CUDA_SUCCESS;
    const CUresult result = driver.libraries().kernel_at(address, kernel);
    return result == CUDA_ERROR_NOT_FOUND ? fail_instead(result, no_such_function) : result;
  });
}

// Calls body(kernel), which returns a CUresult, with a current context.
template <typename Body>
cudaError_t with_kernel(const void* function, const Body& body,
                        const char* call = __builtin_FUNCTION()) {
  CUkernel kernel = nullptr;
  CUresult found = bind_context();
  if (found == CUDA_SUCCESS) found = find_kernel(function, kernel, call);
  if (found == no_such_function) return finish_instead(found, cudaErrorInvalidDeviceFunction, call);
  return finish(found == CUDA_SUCCESS ? body(kernel) : found, call);
}
// Like with_kernel(), with body(kernel, device), where `device` is the context's.
template <typename Body>
cudaError_t with_kernel_on_device(const void* function, const Body& body,
                                  const char* call = __builtin_FUNCTION()) {
  return with_kernel(
      function,
      [&](CUkernel kernel) {
        CUdevice device = 0;
        const CUresult found = cuCtxGetDevice(&device);
        return found == CUDA_SUCCESS ? body(kernel, device) : found;
      },
      call);
}

CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

// Whether the stream's device supports launches of this shape. True for an invalid stream, because
// the launch itself refuses it.
bool is_shape(const cudaLaunchConfig_t& config, CUstream stream) {
  CUdevice device = 0;
  if (cuStreamGetDevice(stream, &device) != CUDA_SUCCESS) return true;
  const LaunchShape shape{{config.gridDim.x, config.gridDim.y, config.gridDim.z},
                          {config.blockDim.x, config.blockDim.y, config.blockDim.z},
                          0};
  return size_of(shape, Driver::current()->runtime().topology(), device).has_value();
}

cudaError_t launch(const cudaLaunchConfig_t* config, CUstream stream, const void* function,
                   void** args, const char* call = __builtin_FUNCTION()) {
  CUkernel kernel = nullptr;
  const cudaError_t found = with_kernel(
      function,
      [&](CUkernel its_kernel) {
        kernel = its_kernel;
        if (config == nullptr) return refuse_null("config");
        if (config->dynamicSmemBytes <= UINT_MAX) return CUDA_SUCCESS;
        return fail(CUDA_ERROR_INVALID_VALUE, "dynamicSmemBytes is {}; pass at most {}",
                    config->dynamicSmemBytes, UINT_MAX);
      },
      call);
  if (found != cudaSuccess) return found;
  if (!is_shape(*config, stream))
    return finish_instead(
        fail(CUDA_ERROR_INVALID_VALUE,
             "the device has no grids of {} x {} x {} blocks of {} x {} x {} threads; see "
             "cudaDeviceProp",
             config->gridDim.x, config->gridDim.y, config->gridDim.z, config->blockDim.x,
             config->blockDim.y, config->blockDim.z),
        cudaErrorInvalidConfiguration, call);
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  const CUlaunchConfig same{config->gridDim.x,
                            config->gridDim.y,
                            config->gridDim.z,
                            config->blockDim.x,
                            config->blockDim.y,
                            config->blockDim.z,
                            static_cast<unsigned>(config->dynamicSmemBytes),
                            stream,
                            reinterpret_cast<CUlaunchAttribute*>(config->attrs),
                            config->numAttrs};
  return finish(cuLaunchKernelEx(&same, as_function(kernel), args, nullptr), call);
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args,
                   std::size_t shared_bytes, CUstream stream,
                   const char* call = __builtin_FUNCTION()) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, nullptr, 0};
  return launch(&config, stream, function, args, call);
}

cudaError_t launch_cooperatively(const void* function, dim3 grid, dim3 block, void** args,
                                 std::size_t shared_bytes, CUstream stream,
                                 const char* call = __builtin_FUNCTION()) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  const cudaLaunchConfig_t config{grid, block, shared_bytes, stream, &cooperative, 1};
  return launch(&config, stream, function, args, call);
}

// Stores an attribute as a size_t or an int.
template <typename Number>
CUresult tell(Number& value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  int answer = 0;
  const CUresult result = cuKernelGetAttribute(&answer, attribute, kernel, device);
  value = static_cast<Number>(answer);
  return result;
}

// Returns the first result that is not CUDA_SUCCESS.
template <typename... Results>
CUresult first_error(Results... results) {
  CUresult first = CUDA_SUCCESS;
  ((first = first == CUDA_SUCCESS ? results : first), ...);
  return first;
}

CUresult tell_all(cudaFuncAttributes& all, CUkernel kernel, CUdevice device) {
  const auto tell_one = [&](auto& value, CUfunction_attribute attribute) {
    return tell(value, attribute, kernel, device);
  };
  return first_error(
      tell_one(all.sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
      tell_one(all.constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
      tell_one(all.localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
      tell_one(all.maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
      tell_one(all.numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS),
      tell_one(all.ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION),
      tell_one(all.binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
      tell_one(all.cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
      tell_one(all.maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
      tell_one(all.preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
      tell_one(all.clusterDimMustBeSet, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET),
      tell_one(all.requiredClusterWidth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
      tell_one(all.requiredClusterHeight, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
      tell_one(all.requiredClusterDepth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH),
      tell_one(all.clusterSchedulingPolicyPreference,
               CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE),
      tell_one(all.nonPortableClusterSizeAllowed,
               CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));
}

}  // namespace

cudaError_t cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  return with_kernel(entryFuncAddr, [&](CUkernel kernel) {
    if (kernelPtr == nullptr) return refuse_null("kernelPtr");
    *kernelPtr = kernel;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* functionPtr, const void* symbolPtr) {
  return with_kernel(symbolPtr,
                     [&](CUkernel kernel) { return cuKernelGetFunction(functionPtr, kernel); });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  return with_kernel_on_device(func, [&](CUkernel kernel, CUdevice device) {
    if (attr == nullptr) return refuse_null("attr");
    cudaFuncAttributes all{};
    const CUresult result = tell_all(all, kernel, device);
    if (result == CUDA_SUCCESS) *attr = all;
    return result;
  });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
  return with_kernel_on_device(func, [&](CUkernel kernel, CUdevice device) {
    return cuKernelSetAttribute(static_cast<CUfunction_attribute>(attr), value, kernel, device);
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
  return with_kernel_on_device(func, [&](CUkernel kernel, CUdevice device) {
    return cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(cacheConfig), device);
  });
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
  return with_kernel(func, [&](CUkernel kernel) { return cuKernelGetName(name, kernel); });
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
  return with_kernel(func, [&](CUkernel kernel) {
    return cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize);
  });
}

cudaError_t cudaLaunchKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                             size_t sharedMem, cudaStream_t stream) {
  return launch(func, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* func, dim3 gridDim, dim3 blockDim, void** args,
                                        size_t sharedMem, cudaStream_t stream) {
  return launch_cooperatively(func, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  return launch(config, config == nullptr ? nullptr : config->stream, func, args);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* func,
                                     void** args) {
  return launch(config, config == nullptr ? nullptr : per_thread(config->stream), func, args);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func,
                                                          int blockSize, size_t dynamicSMemSize) {
  return with_kernel(func, [&](CUkernel kernel) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, as_function(kernel), blockSize,
                                                       dynamicSMemSize);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags) {
  return with_kernel(func, [&](CUkernel kernel) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, as_function(kernel),
                                                                blockSize, dynamicSMemSize, flags);
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func,
                                                      int numBlocks, int blockSize) {
  return with_kernel(func, [&](CUkernel kernel) {
    return cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, as_function(kernel), numBlocks,
                                                   blockSize);
  });
}
