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
  // run_grid() sets begin and end of `info`. `waiting_blocks` is the number of blocks of a
  // cooperative launch, otherwise 0.
  GridArguments(wherryGridKernel kernel, const wherryLaunchInfo& info,
                std::uint32_t waiting_blocks = 0);

  // Each of these two is called at most once. Returns false if the parameters are not those that
  // the kernel declares, or have more than 32,764 bytes.
  //
  // `pointers` is cuLaunchKernel's kernelParams. If the kernel declares nothing, the library copies
  // what the text at WHERRY_KERNEL_PARAMS says.
  bool add(void** pointers, const DeclaredParams& declared, Runtime& runtime);
  // `extra` is cuLaunchKernel's. Requires: the kernel declares its parameters.
  bool add_packed(void** extra, const DeclaredParams& declared);

  // Returns the argument block for run_grid().
  std::vector<std::byte> take();

 private:
  bool append(const void* bytes, std::size_t size);

  std::vector<std::byte> block_;
  std::vector<std::byte> data_;
  std::size_t bytes_ = 0;  // the parameters' sizes together
  // The offset of each parameter in data_; `missing` if the program passed no readable pointer.
  std::vector<unsigned> offsets_;
};

// The offset of a declared parameter in the buffer that cuLaunchKernel's `extra` passes.
std::size_t packed_offset(const DeclaredParams& declared, std::size_t index);

// Called in the device: runs a kernel of cuLaunchKernel for the thread blocks [begin, end). `args`
// is in memory that all workers share, and writable if blocks can wait for each other.
void run_grid(const void* args, std::size_t begin, std::size_t end);

// Returns where the parameters are in an argument block; null for one that is missing.
std::vector<void*> grid_params(const std::vector<std::byte>& arguments);

}  // namespace wherry::impl
