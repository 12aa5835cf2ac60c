// The driver calls that measurements use. Each throws std::runtime_error with the error's name
// unless it succeeds.
#pragma once

#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <cstddef>
#include <cstdint>

namespace wherry::bench {

void require(CUresult result, const char* what);

// To be called before init_cuda: a fault then moves only its region of `bytes` (4 KiB to 2 MiB) to
// the faulting processor (the policy is migrate-always).
void move_single_regions(std::size_t bytes);
// Calls cuInit and makes device 0's primary context current.
void init_cuda();
// Makes a device's primary context current.
void use_device(int ordinal);
std::byte* alloc_managed(std::size_t bytes);
void free_managed(std::byte* memory);

inline constexpr CUmemLocation host_location{CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation device_location(int ordinal) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
}
void advise(std::byte* memory, std::size_t bytes, CUmem_advise advice, CUmemLocation where);

wherryStats stats();
std::uint64_t fault_count(const wherryProcessorStats& processor);

// Runs `kernel` once (one item) on the current context's device, and waits for it.
template <typename Args>
void run_on_device(wherryKernel kernel, const Args& args) {
  require(wherryLaunchKernel(nullptr, kernel, &args, sizeof args, 1), "wherryLaunchKernel");
  require(cuCtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace wherry::bench
