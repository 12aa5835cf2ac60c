// Turns preprocessed CUDA C++ into C++ for the headers in wherry/cuda. Lines stay where they are,
// so that messages and debug information name the CUDA file.
//
// A kernel `void k(float* a)` becomes the function that programs call to launch, with the code of
// its threads in a class inside (wherry/cuda/detail/launch.h). k<<<grid, block>>>(a) becomes
// (configure(grid, block) ? (void)0 : k(a)).
#pragma once

#include <string>
#include <vector>

namespace wherry::tool {

struct Rewritten {
  std::string text;
  std::vector<std::string> errors;  // "file:line: error: ..."; if there are some, no text
};

// `relocatable`: device functions and variables can be used by other files (-rdc=true).
Rewritten rewrite_cuda(std::string preprocessed, bool relocatable);

}  // namespace wherry::tool
