#include "managed.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace wherry::bench {

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "unknown error";
  fmt::print(stderr, "{}: {}\n", what, name);
  std::exit(1);
}

void init_cuda() {
  require(cuInit(0), "cuInit");
  CUcontext context = nullptr;
  require(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

std::byte* alloc_managed(std::size_t bytes) {
  CUdeviceptr pointer = 0;
  require(cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  return reinterpret_cast<std::byte*>(pointer);
}

void free_managed(std::byte* memory) {
  require(cuMemFree(reinterpret_cast<CUdeviceptr>(memory)), "cuMemFree");
}

}  // namespace wherry::bench
