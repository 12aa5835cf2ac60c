/* Part of cuda.h, which includes it: host memory that devices use in place. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_HOST_MEMORY_H
#define WHERRY_CUDA_HOST_MEMORY_H

#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuMemHostRegister cuMemHostRegister_v2

#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04

#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_IOMEMORY 0x04
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08

/* Allocates `bytesize` bytes of host memory, initially zero, that the host and the kernels of every
 * device access at the same address. All of them use the same pages. These exist from the
 * beginning, lie in the host's pool and never move; they are locked in memory as far as
 * RLIMIT_MEMLOCK permits. The memory belongs to the process, not to the context. A child made by
 * fork() shares it, until the process frees it: then the child reads zeros.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pp is NULL, or bytesize is 0.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is not enough free memory (WHERRY_HOST_CAPACITY).
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors *pp is NULL. */
CUresult CUDAAPI cuMemAllocHost(void** pp, size_t bytesize);

/* Allocates host memory like cuMemAllocHost, with flags:
 *   - CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP: no effect; all host memory can be used
 *     in every context and by devices.
 *   - CU_MEMHOSTALLOC_WRITECOMBINED: kernels access it at another address than the host, which
 *     cuMemHostGetDevicePointer returns; neither can access it at the other's address. It is cached
 *     like any memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: also for other flags. */
CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags);

/* Frees host memory; NULL frees nothing. Waits until every device has finished the work that was
 * submitted to any stream before. A later access by any processor is an error.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: p is not an address that one of the functions above returned, or is
 *   already freed. */
CUresult CUDAAPI cuMemFreeHost(void* p);

/* Returns the address at which kernels access the byte at p, which lies in host memory or
 * registered memory. It is the same address for all devices. It is p itself, except for
 * CU_MEMHOSTALLOC_WRITECOMBINED and registered memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pdptr is NULL, Flags is not 0, or other memory.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors *pdptr is 0. */
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* pdptr, void* p, unsigned int Flags);

/* Returns the flags of the memory that contains p. Host memory: CU_MEMHOSTALLOC_DEVICEMAP, which is
 * always set, and CU_MEMHOSTALLOC_WRITECOMBINED if it was allocated with that. Registered memory:
 * all of its flags. Managed memory: CU_MEMHOSTALLOC_DEVICEMAP only.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: pFlags is NULL, or other memory.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemHostGetFlags(unsigned int* pFlags, void* p);

/* Lets kernels use existing memory of the program in place: whole pages, at an address of their
 * own, which cuMemHostGetDevicePointer returns. Kernels must not access it at the host's address.
 * Nothing changes for the program, even while threads write to the memory during the call; a child
 * made by fork() gets its own copy, as of any memory. It must be private memory that is readable
 * and writable: from malloc or mmap, a program's variables, a stack. Flags:
 *   - CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP: no effect; the memory can be used
 *     in every context and by devices in any case.
 *   - CU_MEMHOSTREGISTER_READ_ONLY: kernels cannot write; the memory need not be writable.
 *   - CU_MEMHOSTREGISTER_IOMEMORY: not supported.
 * Until it is unregistered, the memory must not be unmapped or moved (munmap, mremap, realloc,
 * free). If userfaultfd is not permitted, a system call that writes to the memory during the call
 * may fail with EFAULT. Children made by a bare clone() share the memory with their parent.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: p is NULL, bytesize is 0, other flags, memory that does not exist or
 *   is not accessible, managed memory, or host memory.
 * - CUDA_ERROR_NOT_SUPPORTED: the pages of a thread's control block, at the end of its stack; where
 *   userfaultfd is not permitted, another thread's stack; shared or locked memory, huge pages of
 *   hugetlbfs, program code, buffers registered with io_uring, or memory that a userfaultfd of the
 *   program tracks.
 * - CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: a byte of it is registered.
 * - CUDA_ERROR_OUT_OF_MEMORY.
 * - CUDA_ERROR_TIMEOUT: another thread's fork() has been under way for 15 seconds, probably because
 *   a handler of pthread_atfork() waits for a lock that the calling thread holds.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors nothing has changed. */
CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags);

/* Unregisters memory: waits until every device has finished the work that was submitted to any
 * stream before, and makes the memory private again, with the same contents, even while threads
 * write to it.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: p is NULL, inside registered memory but not its first address, or in
 *   other memory of this library.
 * - CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: memory that the library does not know.
 * - CUDA_ERROR_TIMEOUT: as above; nothing has changed.
 * - CUDA_ERROR_OUT_OF_MEMORY: the memory stays shared memory, but is no longer registered. */
CUresult CUDAAPI cuMemHostUnregister(void* p);

#endif
