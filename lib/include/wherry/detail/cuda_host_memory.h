/* Part of cuda.h, which includes it: memory of the host that devices use in place. */
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

/* Allocates `bytesize` bytes of host memory, zero at first, for the host and the kernels of every
 * device at the same address. All of them use the same pages, which exist from the beginning, in
 * the host's pool, and never move; they are locked in memory as far as RLIMIT_MEMLOCK permits.
 * Belongs to the process, not to the context. A child made by fork() does not have it.
 * CUDA_ERROR_INVALID_VALUE: pp NULL or bytesize 0; CUDA_ERROR_OUT_OF_MEMORY: there is no such room
 * (WHERRY_HOST_CAPACITY); CUDA_ERROR_INVALID_CONTEXT. On errors *pp is NULL. */
CUresult CUDAAPI cuMemAllocHost(void** pp, size_t bytesize);

/* The same with flags:
 *   CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
 *                                   nothing: all host memory is for every context and for devices
 *   CU_MEMHOSTALLOC_WRITECOMBINED   kernels have it at another address than the host, which
 * cuMemHostGetDevicePointer tells; neither can touch it at the other's. It is cached as any memory
 * CUDA_ERROR_INVALID_VALUE: also for other flags. */
CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags);

/* Frees host memory; NULL frees nothing. Waits until every device has finished what was given to
 * any stream before. A later touch by anybody is an error. CUDA_ERROR_INVALID_VALUE: p is not what
 * one of the functions above returned, or is freed. */
CUresult CUDAAPI cuMemFreeHost(void* p);

/* Tells where kernels have the byte at p, of host memory or registered memory: for all devices the
 * same address, which is p itself but for CU_MEMHOSTALLOC_WRITECOMBINED and registered memory.
 * CUDA_ERROR_INVALID_VALUE: pdptr NULL, Flags other than 0, other memory;
 * CUDA_ERROR_INVALID_CONTEXT. On errors *pdptr is 0. */
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* pdptr, void* p, unsigned int Flags);

/* Tells CU_MEMHOSTALLOC_DEVICEMAP, which all of it has, and of host memory, any byte of it, whether
 * it is CU_MEMHOSTALLOC_WRITECOMBINED; of registered memory all flags. Of managed memory the first
 * alone. CUDA_ERROR_INVALID_VALUE: pFlags NULL, other memory; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemHostGetFlags(unsigned int* pFlags, void* p);

/* Lets kernels use memory that the program has already, in place: whole pages, at an address of
 * their own, which cuMemHostGetDevicePointer tells. For the program nothing changes, also while
 * threads write to it during the call; a child made by fork() gets its own copy as of any memory.
 * Kernels must not touch it at the host's address. It must be private anonymous memory that may be
 * read and written: from malloc, mmap, or a program's uninitialized variables.
 *   CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_DEVICEMAP   nothing: it is for every context
 * and for devices in any case CU_MEMHOSTREGISTER_READ_ONLY   kernels cannot write; the memory need
 * not be writable CU_MEMHOSTREGISTER_IOMEMORY    not supported Until it is unregistered the memory
 * must not be unmapped or moved (munmap, mremap, realloc, free). Where userfaultfd is not permitted
 * a system call that writes to it during the call may fail with EFAULT. Children made by a bare
 * clone() share it with their parent. CUDA_ERROR_INVALID_VALUE: p NULL, bytesize 0, other flags,
 * memory that does not exist or may not be used, managed or host memory; CUDA_ERROR_NOT_SUPPORTED:
 * threads' stacks, mapped files, shared or locked memory, huge pages of hugetlbfs, program code,
 * buffers registered with io_uring, memory that a userfaultfd of the program's tracks;
 * CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: a page of it is; CUDA_ERROR_OUT_OF_MEMORY;
 * CUDA_ERROR_TIMEOUT: another thread's fork() has been under way for 15 seconds, probably because a
 * handler of pthread_atfork() waits for a lock that the calling thread has;
 * CUDA_ERROR_INVALID_CONTEXT. Nothing has changed then. */
CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags);

/* Ends that: waits until every device has finished what was given to any stream before, and makes
 * the memory private again, with the same contents, also while threads write to it.
 * CUDA_ERROR_INVALID_VALUE: p NULL, inside registered memory but not where it begins, or other
 * memory of this library; CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: memory that it does not know;
 * CUDA_ERROR_TIMEOUT: as above, and nothing has changed; CUDA_ERROR_OUT_OF_MEMORY: it stays shared
 * memory, and is not registered any more. */
CUresult CUDAAPI cuMemHostUnregister(void* p);

#endif
