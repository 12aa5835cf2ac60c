// The parameters of a launch by cuLaunchKernel: copies them from the program's memory into the
// argument block that the device's kernel reads. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "objects/module.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class GridArguments {
 public:
  // `info`: all but begin and end, which run_grid() sets. `waiting_blocks`: how many blocks the
  // launch has, if they can wait for each other; else 0.
  GridArguments(wherryGridKernel kernel, const wherryLaunchInfo& info,
                std::uint32_t waiting_blocks = 0);

  // Each of the two is called at most once. Returns false if the parameters are not what the kernel
  // declares, or more than 32,764 bytes.
  //
  // `pointers` is cuLaunchKernel's kernelParams. If the kernel declares nothing, the library takes
  // what WHERRY_KERNEL_PARAMS describes.
  bool add(void** pointers, const DeclaredParams& declared, Runtime& runtime);
  // `extra` is cuLaunchKernel's. Requires: the kernel declares its parameters.
  bool add_packed(void** extra, const DeclaredParams& declared);

  // Returns the argument block for run_grid().
  std::vector<std::byte> take();

 private:
  bool append(const void* bytes, std::size_t size);

  std::vector<std::byte> block_;
  std::vector<std::byte> data_;
  std::size_t bytes_ = 0;  // of the parameters
  // In data_, of each parameter; `missing`: the program passed no readable pointer.
  std::vector<unsigned> offsets_;
};

// The offset of a parameter in the buffer that `extra` passes. Requires: it is declared.
std::size_t packed_offset(const DeclaredParams& declared, std::size_t index);

// In the device: runs such a kernel for the thread blocks [begin, end). `args` is in memory that
// all workers share, and, if blocks can wait for each other, writable.
void run_grid(const void* args, std::size_t begin, std::size_t end);

// Where the parameters are in an argument block; null: one that is missing.
std::vector<void*> grid_params(const std::vector<std::byte>& arguments);

}  // namespace wherry::impl
