/* What code that `wherry nvcc` has compiled uses of the library: kernels that are known by the
 * address of a host function, and the threads of a block that wait for each other.
 *
 * Not an interface for programs: compiled code and library must be of the same version. Compiles as
 * C11 and C++. The functions of the second part may only be called by a thread of a block, while
 * wherryRunBlock runs that block. */
#ifndef WHERRY_KERNEL_CODE_H
#define WHERRY_KERNEL_CODE_H

#include "../wherry.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Makes `stub` the address of a kernel for the functions of cuda_runtime_api.h that take one.
 *   - stub: the function that the program calls to launch. It is in the same loaded object as
 *     `entry`.
 *   - name: for cudaFuncGetName and messages; must stay valid.
 *   - entry: runs whole blocks of a launch.
 *   - sizes: of the `count` parameters, in bytes; must stay valid.
 * Registering a stub again replaces the entry. Any thread, at any time, before cuInit too. */
void wherryRegisterKernel(const void* stub, const char* name, wherryGridKernel entry,
                          const unsigned* sizes, size_t count);

/* A block while its threads run. */
typedef struct {
  unsigned blockIdx[3];
  unsigned blockDim[3];
  unsigned gridDim[3];
  unsigned sharedBytes; /* of dynamic shared memory */
  void* shared;         /* dynamic shared memory, aligned to 64 bytes */
  const char* kernel;   /* its name, for messages */
} wherryKernelBlock;

/* A thread of a block, for functions that kernels call. */
typedef struct {
  unsigned threadIdx[3];
  unsigned rank; /* in the block, x fastest */
  const wherryKernelBlock* block;
} wherryKernelThread;

/* The block that runs now on this worker; NULL outside of kernels. */
extern __thread const wherryKernelBlock* wherryThisBlock __attribute__((tls_model("initial-exec")));
/* The thread of the block that runs now; NULL if only the kernel itself has the thread's index. */
extern __thread wherryKernelThread* wherryThisThread __attribute__((tls_model("initial-exec")));

/* The worker's memory for the dynamic shared memory of one block at a time; aligned to 64 bytes.
 * Valid until the next call on the same worker. NULL if there is no memory. */
void* wherrySharedMemory(size_t bytes);

/* Runs run(closure) once for each thread of the block, with wherryThisThread set. Threads that wait
 * let others run; a block whose threads can only wait ends the device with a message. */
void wherryRunBlock(const wherryKernelBlock* block, void (*run)(void* closure), void* closure);

/* ---- For threads of wherryRunBlock ---- */

/* Waits until all threads of the block that have not ended wait here. Returns for how many of them
 * `predicate` was not 0, and stores in *all, unless it is NULL, whether that is all of them. */
unsigned wherryBlockBarrier(int predicate, int* all);

/* Waits until all threads of the grid that have not ended wait here. A grid of several blocks must
 * have been launched cooperatively; otherwise the device ends with a message. */
void wherryGridBarrier(void);

/* Waits until all lanes of the warp in `mask` that have not ended wait here. */
void wherryWarpBarrier(unsigned mask);
/* Waits like wherryWarpBarrier, and gives `value` to the other lanes: element i of the result is
 * the value of lane i, until the caller's next wherryWarpBarrier(mask), which must follow. */
const unsigned long long* wherryWarpExchange(unsigned mask, unsigned long long value);
/* Waits until all threads of the tile that have not ended wait here: `threads` neighbours of the
 * block, 64 to 1024, a power of two. */
void wherryTileBarrier(unsigned threads);
/* Waits until every lane of the warp has ended or waits, and returns the lanes that wait in a call
 * from the same place. */
unsigned wherryActiveLanes(const void* place);

/* ---- For every kernel ---- */

/* Whether the threads of the grid can wait for each other: it was launched cooperatively, or it is
 * one block. */
int wherryGridCanWait(void);

/* Reports a failed assertion: prints the message and ends the device with CUDA_ERROR_ASSERT. On a
 * coherent device the program aborts. */
void wherryAssertionFailed(const char* message) __attribute__((noreturn));
/* Reports that a kernel cannot go on, likewise with CUDA_ERROR_LAUNCH_FAILED or an abort. */
void wherryKernelFailed(const char* message) __attribute__((noreturn));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
