// `wherry nvcc`: compiles CUDA sources for Wherry's devices, with nvcc's command line.
#pragma once

#include <string>
#include <vector>

namespace wherry::tool {

// `words`: the arguments after `nvcc`. Returns the exit status, that of the compiler if it fails.
int run_nvcc(const std::vector<std::string>& words);

}  // namespace wherry::tool
