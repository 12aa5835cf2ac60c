// The few driver calls that every benchmark makes; each dies with the error's name.
#pragma once

#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <cstddef>

namespace wherry::bench {

void require(CUresult result, const char* what);

// cuInit, and device 0's primary context made current.
void init_cuda();
std::byte* alloc_managed(std::size_t bytes);
void free_managed(std::byte* memory);

// Runs `kernel` once (one item) on the current context's device and waits for it.
template <typename Args>
void run_on_device(wherryKernel kernel, const Args& args) {
  require(wherryLaunch(nullptr, kernel, &args, sizeof args, 1), "wherryLaunch");
  require(cuCtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace wherry::bench
