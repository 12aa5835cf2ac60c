// The parameters of a launch of cuLaunchKernel, from where the program has them to where the kernel
// finds them.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/module.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class GridArguments {
 public:
  // `info`: without begin and end.
  GridArguments(wherryGridKernel kernel, const wherryLaunchInfo& info);

  // Each once at most. False: the parameters are not what was declared, or too large. As
  // kernelParams has them; of a kernel that declares nothing as WHERRY_KERNEL_PARAMS describes it.
  bool add(void** pointers, const DeclaredParams& declared, Runtime& runtime);
  // As `extra` has them. Requires: they are declared.
  bool add_packed(void** extra, const DeclaredParams& declared);

  // What run_grid() takes.
  std::vector<std::byte> take();

 private:
  bool append(const void* bytes, std::size_t size);

  std::vector<std::byte> block_;
  std::vector<std::byte> data_;
  std::vector<unsigned> offsets_;  // in data_, of each parameter; `missing`: it is a null pointer
};

// Where a parameter lies in a buffer as `extra` has it. Requires: it is declared.
std::size_t packed_offset(const DeclaredParams& declared, std::size_t index);

// In the device: runs such a kernel for a part of its threads.
void run_grid(const void* args, std::size_t begin, std::size_t end);

}  // namespace wherry::impl
