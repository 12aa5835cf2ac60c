#include "support/modules.h"

namespace wherry::test {

CUmodule load_module(const char* file) {
  CUmodule module = nullptr;
  WHERRY_TRY(cuModuleLoad(&module, file));
  return module;
}

CUfunction function_of(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  WHERRY_TRY(cuModuleGetFunction(&function, module, name));
  return function;
}

CUresult run_kernel(CUfunction kernel, void** params, CUstream stream, unsigned blocks,
                    unsigned threads_per_block) {
  const CUresult result =
      cuLaunchKernel(kernel, blocks, 1, 1, threads_per_block, 1, 1, 0, stream, params, nullptr);
  return result != CUDA_SUCCESS ? result : cuStreamSynchronize(stream);
}

}  // namespace wherry::test
