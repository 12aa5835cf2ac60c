// A program that is not linked with the library, but loads it, as Python does. It reads a file with
// O_DIRECT into managed memory.
//
// Usage: direct_loader LIBWHERRY
#include <dlfcn.h>
#include <wherry/cuda.h>

#include <cstdio>

#include "../support/refused_reads.h"

namespace {

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc == 2 ? ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (find<decltype(cuInit)>(library, "cuInit")(0) != CUDA_SUCCESS ||
      find<decltype(cuDevicePrimaryCtxRetain)>(library, "cuDevicePrimaryCtxRetain")(&context, 0) !=
          CUDA_SUCCESS ||
      find<decltype(cuCtxSetCurrent)>(library, "cuCtxSetCurrent")(context) != CUDA_SUCCESS ||
      find<decltype(cuMemAllocManaged)>(library, "cuMemAllocManaged")(
          &memory, FILE_BYTES, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS)
    return 1;
  return read_directly(reinterpret_cast<char*>(memory));
}
