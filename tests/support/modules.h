// Modules of the driver API. Functions throw std::runtime_error on an error, unless they return a
// CUresult.
#pragma once

#include <wherry/cuda.h>

#include "support/session.h"

namespace wherry::test {

// Loads the module into the current context.
CUmodule load_module(const char* file);
CUfunction function_of(CUmodule module, const char* name);

template <typename T = char>
T* variable_of(CUmodule module, const char* name) {
  CUdeviceptr address = 0;
  WHERRY_TRY(cuModuleGetGlobal(&address, nullptr, module, name));
  return reinterpret_cast<T*>(address);
}

// Launches the kernel and waits for the stream.
CUresult run_kernel(CUfunction kernel, void** params, CUstream stream = nullptr,
                    unsigned blocks = 1, unsigned threads_per_block = 1);

}  // namespace wherry::test
