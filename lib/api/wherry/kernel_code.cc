// The functions that code compiled by `wherry nvcc` calls.
#include <wherry/detail/kernel_code.h>

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "devices/crash_report.h"
#include "kernels/block_runner.h"
#include "kernels/grid_barrier.h"
#include "objects/compiled_kernels.h"

using namespace wherry::impl;

namespace {

constexpr std::size_t shared_alignment = 64;

// A worker's shared memory, which is freed when the worker ends.
struct SharedMemory {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory;
  std::size_t bytes = 0;
};
thread_local SharedMemory shared_memory;

[[noreturn]] void fail_kernel(DeviceFailure::Kind kind, const char* message) {
  std::fflush(stdout);
  if (is_device_process()) end_with_failure(kind, 0, 0, message);
  std::fprintf(stderr, "%s\n", message);
  std::abort();
}

// Returns the runner of the block to which the waiting thread belongs.
BlockRunner& waiting_runner() {
  BlockRunner& runner = BlockRunner::of_this_thread();
  if (!runner.is_running())
    wherryKernelFailed(
        fmt::format(
            "kernel {}: a thread waits in a function that is called through a pointer: name "
            "the function in the kernel, so that wherry nvcc knows that threads may wait",
            wherryThisBlock == nullptr ? "?" : wherryThisBlock->kernel)
            .c_str());
  return runner;
}

}  // namespace

void wherryRegisterKernel(const void* stub, const char* name, wherryGridKernel entry,
                          const unsigned* sizes, size_t count) {
  CompiledKernels::of_process().add(stub, {name, entry, {sizes, count}});
}

void* wherrySharedMemory(size_t bytes) {
  if (bytes > shared_memory.bytes) {
    const std::size_t rounded =
        (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
    shared_memory.memory.reset(std::aligned_alloc(shared_alignment, rounded));
    shared_memory.bytes = shared_memory.memory == nullptr ? 0 : rounded;
  }
  return shared_memory.memory.get();
}

void wherryRunBlock(const wherryKernelBlock* block, void (*run)(void* closure), void* closure) {
  BlockRunner::of_this_thread().run(*block, run, closure);
}

unsigned wherryBlockBarrier(int predicate, int* all) {
  return waiting_runner().block_barrier(predicate, all);
}

int wherryGridCanWait(void) {
  if (grid_barrier_of_this_thread() != nullptr) return 1;
  const wherryKernelBlock* const block = wherryThisBlock;
  return block != nullptr && block->gridDim[0] == 1 && block->gridDim[1] == 1 &&
         block->gridDim[2] == 1;
}

void wherryGridBarrier(void) {
  BlockRunner& runner = waiting_runner();
  if (grid_barrier_of_this_thread() != nullptr) return runner.grid_barrier();
  if (wherryGridCanWait() == 0)
    wherryKernelFailed(fmt::format("kernel {}: grid.sync() of several blocks needs a launch by "
                                   "cudaLaunchCooperativeKernel",
                                   wherryThisBlock->kernel)
                           .c_str());
  runner.block_barrier(0, nullptr);
}

void wherryWarpBarrier(unsigned mask) {
  waiting_runner().warp_barrier(mask);
}

void wherryTileBarrier(unsigned threads) {
  waiting_runner().tile_barrier(threads);
}

const unsigned long long* wherryWarpExchange(unsigned mask, unsigned long long value) {
  return waiting_runner().warp_exchange(mask, value);
}

unsigned wherryActiveLanes(const void* place) {
  return waiting_runner().active_lanes(place);
}

void wherryAssertionFailed(const char* message) {
  fail_kernel(DeviceFailure::Kind::assertion, message);
}

void wherryKernelFailed(const char* message) {
  fail_kernel(DeviceFailure::Kind::failed, message);
}
