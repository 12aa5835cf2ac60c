// What the CUDA compiler's code in a program calls: it registers kernels and variables, and
// launches by a push and a pop.
#include "api/compiler_exports.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "api/cudart/entry.h"
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

// A stack: arguments of a kernel may launch others.
std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

RegisteredCode& code() {
  return RegisteredCode::of_process();
}

// Managed memory; ordinary memory if there is none, since the program does not look for an error.
void* allocate_managed(std::size_t bytes) {
  CUdeviceptr memory = 0;
  CUresult result = bind_context();
  if (result == CUDA_SUCCESS) result = cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL);
  if (result == CUDA_SUCCESS) return reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory));
  static std::atomic<bool> is_said = false;
  if (!is_said.exchange(true))
    log_line(
        "__managed__ variables are ordinary memory of the host: no managed memory can be had: {}",
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
      "__managed__ {}{}: begins as zeros: its initial value is in code for GPUs only; assign it in "
      "the program",
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

// Every module's: a variable may be used by a module that only declares it.
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
  if (stack.empty()) return refuse(cudaErrorMissingConfiguration);
  const CallConfiguration top = stack.back();
  stack.pop_back();
  *gridDim = top.grid;
  *blockDim = top.block;
  *sharedMem = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// A registered kernel's stub is its handle: the launch refuses it, each time anew.
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
  return cudaLaunchKernel_ptsz(reinterpret_cast<const void*>(kernel), gridDim, blockDim, args,
                               sharedMem, stream);
}
