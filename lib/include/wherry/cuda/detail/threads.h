/* What code of kernels asks about the thread that runs it, and how it waits for others. Internal to
 * the headers in wherry/cuda. C++17. */
#ifndef WHERRY_CUDA_THREADS_H
#define WHERRY_CUDA_THREADS_H

#include <assert.h>
#include <stdio.h>

#include "../../detail/kernel_code.h"
#include "../vector_types.h"

namespace wherry::kernels {

/* For functions that a kernel calls; the kernel itself has its index in parameters. */
__device__ inline uint3 thread_index() {
  const wherryKernelThread* const thread = wherryThisThread;
  if (thread == nullptr)
    wherryKernelFailed(
        "a function that uses threadIdx is called through a pointer: name the function in the "
        "kernel, so that wherry nvcc knows that it needs the index");
  return uint3{thread->threadIdx[0], thread->threadIdx[1], thread->threadIdx[2]};
}
inline uint3 block_index() {
  const unsigned(&index)[3] = wherryThisBlock->blockIdx;
  return uint3{index[0], index[1], index[2]};
}
inline dim3 block_dim() {
  const unsigned(&size)[3] = wherryThisBlock->blockDim;
  return dim3(size[0], size[1], size[2]);
}
inline dim3 grid_dim() {
  const unsigned(&size)[3] = wherryThisBlock->gridDim;
  return dim3(size[0], size[1], size[2]);
}
inline void* dynamic_shared() {
  return wherryThisBlock->shared;
}

/* The thread's number in its block, x fastest. */
__device__ inline unsigned thread_rank() {
  const uint3 index = ::wherry::kernels::thread_index();
  const unsigned(&size)[3] = wherryThisBlock->blockDim;
  return (index.z * size[1] + index.y) * size[0] + index.x;
}
/* The lanes of the thread's warp that the block has. */
__device__ inline unsigned lanes_of_warp() {
  const unsigned(&size)[3] = wherryThisBlock->blockDim;
  const unsigned rest = size[0] * size[1] * size[2] - ::wherry::kernels::thread_rank() / 32 * 32;
  return rest >= 32 ? ~0u : (1u << rest) - 1;
}

/* Stands for `extern __shared__ T name[];` outside of functions. */
template <typename T>
struct DynamicShared {
  operator T*() const { return static_cast<T*>(dynamic_shared()); }
};

/* `index` is the thread's index; null if it is not known. */
[[noreturn]] inline void report_assertion(const unsigned* index, const char* condition,
                                          const char* file, unsigned line) {
  const wherryKernelBlock* const block = wherryThisBlock;
  char thread[64] = "";
  if (index != nullptr)
    snprintf(thread, sizeof thread, ", thread: [%u,%u,%u]", index[0], index[1], index[2]);
  char message[500];
  snprintf(message, sizeof message, "%s:%u: %s: block: [%u,%u,%u]%s Assertion `%s` failed.", file,
           line, block->kernel, block->blockIdx[0], block->blockIdx[1], block->blockIdx[2], thread,
           condition);
  wherryAssertionFailed(message);
}
[[noreturn]] inline void assertion_failed(const char* condition, const char* file, unsigned line,
                                          const char* function) {
  if (wherryThisBlock == nullptr) __assert_fail(condition, file, line, function);
  report_assertion(wherryThisThread == nullptr ? nullptr : wherryThisThread->threadIdx, condition,
                   file, line);
}
/* For the body of a kernel, where wherry nvcc adds the index. */
[[noreturn]] inline void assertion_failed(const uint3& thread, const char* condition,
                                          const char* file, unsigned line, const char*) {
  report_assertion(&thread.x, condition, file, line);
}

}  // namespace wherry::kernels

#endif
