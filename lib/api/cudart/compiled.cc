// The functions that compiler-generated code of a CUDA program calls: it registers kernels and
// variables, and launches by a push and a pop of the launch configuration.
#include "api/compiler_exports.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "api/cudart/entry.h"
#include "api/entry.h"
#include "api/exports.h"
#include "api/registered_code.h"
#include "base/log.h"
#include "os/memory/mapping.h"

using namespace wherry::impl;

namespace {

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// The configurations that were pushed and not yet popped: a stack, because computing a kernel's
// arguments may launch other kernels.
std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

RegisteredCode& code() {
  return RegisteredCode::of_process();
}

// Returns managed memory, or ordinary memory if there is none, because the program does not check
// for an error.
void* allocate_managed(std::size_t bytes) {
  CUdeviceptr memory = 0;
  CUresult result = bind_context();
  if (result == CUDA_SUCCESS) result = cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL);
  if (result == CUDA_SUCCESS) return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true))
    log_line("__managed__ variables are ordinary host memory: managed memory is not available: {}",
             cudaGetErrorString(to_runtime_error(result)));
  try {
    static auto& mappings = *new std::vector<Mapping>;
    return mappings.emplace_back(Mapping::zeroed(bytes)).data();
  } catch (const std::exception& no_memory) {
    log_line("a __managed__ variable of {} bytes has no memory: {}", bytes, no_memory.what());
    return nullptr;
  }
}

void say_what_variables_hold(const std::vector<std::string>& names) {
  static std::atomic<bool> is_said = false;
  if (names.empty() || is_said.exchange(true)) return;
  const std::string others =
      names.size() == 1 ? "" : " and " + std::to_string(names.size() - 1) + " more";
  log_line(
      "__managed__ {}{}: starts as zeros, because its initial value is in GPU code only; assign it "
      "in the program",
      names.front(), others);
}

}  // namespace

void** __cudaRegisterFatBinary(void*) {
  return code().begin_module();
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** fatCubinHandle) {
  code().end_module(fatCubinHandle);
}

void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun, char*,
                            const char* deviceName, int, void*, void*, void*, void*, int*) {
  code().add_kernel(fatCubinHandle, hostFun, deviceName);
}
void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char*, const char* deviceName, int,
                       size_t size, int, int) {
  code().add_variable(fatCubinHandle, hostVar, deviceName, size);
}
void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress, char*,
                              const char* deviceName, int, size_t size, int, int) {
  code().add_managed(fatCubinHandle, hostVarPtrAddress, deviceName, size);
}

// Initializes the variables of every module, because a module may use another's variable.
char __cudaInitModule(void**) {
  say_what_variables_hold(code().give_memory(allocate_managed));
  return 1;
}

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     cudaStream_t stream) {
  configurations().push_back({gridDim, blockDim, sharedMem, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* gridDim, dim3* blockDim, size_t* sharedMem,
                                       void* stream) {
  auto& stack = configurations();
  if (stack.empty())
    return finish_instead(
        fail(CUDA_ERROR_INVALID_VALUE,
             "no configuration of a launch was pushed; launch with <<<>>> or cudaLaunchKernel"),
        cudaErrorMissingConfiguration);
  const CallConfiguration top = stack.back();
  stack.pop_back();
  *gridDim = top.grid;
  *blockDim = top.block;
  *sharedMem = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// The stub of a registered kernel serves as its handle. Each launch with it is refused, because the
// kernel's code is for GPUs.
cudaError_t __cudaGetKernel(cudaKernel_t* kernelPtr, const void* entryFuncAddr) {
  if (!code().find_kernel(entryFuncAddr)) return cudaGetKernel(kernelPtr, entryFuncAddr);
  *kernelPtr = reinterpret_cast<cudaKernel_t>(reinterpret_cast<std::uintptr_t>(entryFuncAddr));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                               size_t sharedMem, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), gridDim, blockDim, args, sharedMem,
                          stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void** args,
                                    size_t sharedMem, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, per_thread(stream));
}
