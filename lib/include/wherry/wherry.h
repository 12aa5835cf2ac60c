/* Wherry's extensions to the CUDA driver API: launching host code on a device, counters, where a
 * page is, how to keep it there or hand it to others, and how to have it here for a system call.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED. Kernels may call
 * wherryTouch alone. */
#ifndef WHERRY_WHERRY_H
#define WHERRY_WHERRY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Limits of this interface. */
#define WHERRY_MAX_DEVICES 8
#define WHERRY_MAX_PROCESSORS (1 + WHERRY_MAX_DEVICES)
#define WHERRY_MAX_ARGS_SIZE 4096

/* A kernel: called for pieces [begin, end) of a launch, on worker threads of the device's process.
 * `args` is the device's own copy of the argument block, aligned to 64 bytes, valid until the call
 * returns. */
typedef void (*wherryKernel)(const void* args, size_t begin, size_t end);

/* Runs `kernel` over [0, items) on the stream's device, split across its workers, in stream order;
 * asynchronous.
 *
 *   stream     a stream, or NULL for the current context's default stream
 *   kernel     a function of this program, or of a shared object (loaded before or after cuInit)
 *   args       `args_size` bytes (at most WHERRY_MAX_ARGS_SIZE), copied before the call returns;
 * may be NULL if 0. The bytes are used in another process: pointers in them are good if they point
 * to managed memory. items      length of the index range; 0 runs nothing and succeeds
 *
 * Returns CUDA_SUCCESS; CUDA_ERROR_NOT_INITIALIZED; CUDA_ERROR_INVALID_CONTEXT (no current context,
 * stream NULL); CUDA_ERROR_INVALID_HANDLE (not a stream); CUDA_ERROR_INVALID_VALUE (kernel NULL,
 * args NULL with a size, or too large); CUDA_ERROR_NOT_FOUND (the kernel lies in no loaded module);
 * or the context's sticky error: CUDA_ERROR_ILLEGAL_ADDRESS (a kernel touched memory its device
 * cannot see) or CUDA_ERROR_LAUNCH_FAILED (a kernel threw, aborted or exited, or the device's
 * process died). Thread-safe. */
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define wherryLaunch __CUDA_API_PTSZ(wherryLaunch)
#endif
CUresult wherryLaunch(CUstream stream, wherryKernel kernel, const void* args, size_t args_size,
                      size_t items);

/* Declares variables of a file, or static ones of a function, that are managed memory:
 *
 *     WHERRY_MANAGED double weights[1000];
 *     static WHERRY_MANAGED int rounds = 5;
 *
 * in the program, in shared libraries, and in modules that are loaded later; in C and C++. From the
 * first cuInit on (of a library that is loaded later: from the first launch, or the first call that
 * is given its address, after that; of a module: from cuModuleLoad on) every processor has the
 * variable at its own address, and it is to all functions what cuMemAllocManaged gives, but that it
 * is never freed. It keeps the contents that it had. Before that it is an ordinary variable; no
 * other thread writes it while the call runs that makes it managed memory.
 *
 * Each variable takes whole pages of 4096 bytes. It is not const, not thread-local, and needs no
 * constructor. A library that has such variables stays loaded. A program that uses a library's
 * declares them `extern __attribute__((weak))`, or is compiled with -fPIC: otherwise the linker may
 * place a copy of its own in the program, which is an ordinary variable (the log says so). A child
 * made by fork() has copies of its own, which are ordinary memory. */
#define WHERRY_MANAGED __attribute__((section("wherry_managed"), aligned(4096)))
/* Begins a page behind them, so that no other variable shares their last one. */
__asm__(
    ".pushsection wherry_managed,\"aw\",%progbits\n"
    ".balign 4096\n"
    ".popsection\n"
    ".pushsection wherry_managed_end,\"awG\",%progbits,wherry_managed_end,comdat\n"
    ".balign 4096\n"
    ".byte 0\n"
    ".popsection\n");

/* What a kernel of cuLaunchKernel is called with: the threads of a launch, which are all those of
 * its blocks, have the numbers from 0 to `threads` - 1, first those of one block, x fastest. */
typedef struct {
  size_t begin; /* this call is for the threads from here */
  size_t end;   /* up to before here */
  size_t threads;
  unsigned gridDim[3];
  unsigned blockDim[3];
  unsigned sharedMemBytes;
} wherryLaunchInfo;

/* A kernel of cuLaunchKernel, exported by a module under its own name (in C++: extern "C").
 * params[i] points to the device's copy of parameter i, aligned to 16 bytes, valid until the call
 * returns. A launch is several such calls, at once. */
typedef void (*wherryGridKernel)(const wherryLaunchInfo* info, void** params);

/* Says beside a kernel how large its parameters are, at most WHERRY_MAX_PARAMS of them:
 *
 *     void touch(const wherryLaunchInfo* info, void** params) { ... }
 *     WHERRY_KERNEL_PARAMS(touch, sizeof(char*), sizeof(uint32_t));
 *
 * Then exactly these bytes are copied. Of a kernel that does not say it nobody knows: what each of
 * the 16 pointers at kernelParams points to is copied, 64 bytes or as many as can be read. Pointers
 * that point to nothing readable, or into managed memory, have NULL in `params`; kernelParams may
 * be shorter. So a parameter of more than 64 bytes, the 17th one, one that lies in managed memory,
 * and cuLaunchKernel's `extra` need the declaration. */
#define WHERRY_MAX_PARAMS 256
#ifdef __cplusplus
#define WHERRY_KERNEL_PARAMS(kernel, ...)                 \
  extern "C" __attribute__((visibility("default"), used)) \
  const unsigned wherry_params_of_##kernel[] = {__VA_ARGS__}
#else
#define WHERRY_KERNEL_PARAMS(kernel, ...)      \
  __attribute__((visibility("default"), used)) \
  const unsigned wherry_params_of_##kernel[] = {__VA_ARGS__}
#endif

/* Counters of one processor since cuInit. Pages are 4096 bytes. */
typedef struct {
  uint64_t faults_missing; /* fault messages: the page was in nobody's view of this processor */
  uint64_t faults_minor;   /* ... the page was in the processor's pool, but not in its page table */
  uint64_t faults_write_protect; /* ... a write to a write-protected page */
  uint64_t populated;            /* pages created (zero) in this processor's pool */
  uint64_t migrated_in;     /* pages moved into this processor's pool, by faults and eviction */
  uint64_t migrated_out;    /* pages moved from this processor's pool to another */
  uint64_t duplicated;      /* read-only copies made in this processor's pool */
  uint64_t collapsed;       /* pages whose other copies were dropped because this processor wrote */
  uint64_t mapped_remotely; /* pages mapped here that stay in another processor's pool */
  uint64_t evicted;         /* pages that left this processor's pool to make room */
  uint64_t prefetched;      /* pages brought into this processor's pool by prefetch */
  uint64_t bytes_copied;    /* bytes copied into this processor's pool */
  uint64_t service_ns;      /* nanoseconds spent resolving this processor's faults */
} wherryProcessorStats;

/* The caller sets `size` to sizeof(wherryStats) before the call; fields past `size` are not
 * written, and fields that this library does not know read 0. */
typedef struct {
  size_t size;
  uint64_t faults_missing;
  uint64_t faults_minor;
  uint64_t faults_write_protect;
  uint64_t populated;
  uint64_t migrated_in;
  uint64_t migrated_out;
  uint64_t duplicated;
  uint64_t collapsed;
  uint64_t mapped_remotely;
  uint64_t evicted;
  uint64_t prefetched;
  uint64_t bytes_copied;
  uint64_t service_ns;
  uint64_t processors;                                   /* how many of the following are in use */
  wherryProcessorStats processor[WHERRY_MAX_PROCESSORS]; /* [0] the host, [1+d] device d */
  uint64_t thrashing_detected;                           /* what policies do: docs/policies.md */
  uint64_t throttled;
  uint64_t thrash_pinned;
  uint64_t thrash_unpinned;
} wherryStats;

/* Chooses the policy that decides where pages go when nothing is advised: before cuInit, and
 * instead of what WHERRY_POLICY says. `policy` is what WHERRY_POLICY would be: "NAME" or
 * "NAME,PARAMETER=NUMBER,..." (`wherry policies` lists them), or a path, with a slash in it, of a
 * shared object (wherry/policy.hpp), which is loaded. CUDA_ERROR_INVALID_VALUE: NULL, or there is
 * no such policy, or parameter, or its number is none that it can have; a log line says which;
 * CUDA_ERROR_NOT_PERMITTED: the library is initialized already. Nothing has changed then.
 * Thread-safe. */
CUresult wherrySetPolicy(const char* policy);

/* Reads the counters. Each is exact once the accesses that caused it have returned; a snapshot
 * taken while others run may mix moments. CUDA_ERROR_INVALID_VALUE: stats NULL or size smaller than
 * one field; CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryGetStats(wherryStats* stats);

/* Where one page is. Bit 0 is the host, bit 1+d device d. The caller sets `size`. */
typedef struct {
  size_t size;
  uint32_t resident;     /* processors whose pool holds a copy of the page */
  uint32_t mapped_read;  /* processors whose page table may hold an entry for it */
  uint32_t mapped_write; /* ... a writable entry */
  int32_t node;          /* NUMA node of the first resident copy, as Linux says; -1: not resident */
} wherryPageInfo_t;

/* Tells where the page that contains `address` is, under the lock that moves it.
 * CUDA_ERROR_INVALID_VALUE: not in a live allocation, managed or a device's own, info NULL, or size
 * too small; CUDA_ERROR_NOT_INITIALIZED. Thread-safe. Does not touch the page. */
CUresult wherryPageInfo(const void* address, wherryPageInfo_t* info);

/* Pins all pages that the `count` bytes from devPtr touch: until wherryUnpin each stays in the
 * memory where it is, and its address there never changes. For memory that something other than a
 * processor works on: a device driver, an I/O request, a neighbour that was told the physical
 * address.
 *
 * Processors still access it at any time: those that it is not with map it where it is. Faults,
 * evictions, prefetches and advice pass it by, and it has no copies: of pages that have some the
 * host's stays, else that of the device with the lowest number. Pages that do not exist yet are
 * created (zero) where a touch by the host would create them: in the memory of their preferred
 * location, else of the host. Pinned memory takes room that nothing else can have. Pinning again
 * what is pinned changes nothing: calls are not counted. Freeing the memory ends it.
 *
 * A range is `count` bytes, not 0, inside one live managed allocation.
 * CUDA_ERROR_INVALID_VALUE: not a range; CUDA_ERROR_OUT_OF_MEMORY: no room for pages that do not
 * exist yet, and then no page is pinned that was not before; CUDA_ERROR_NOT_INITIALIZED. Needs no
 * context. Returns when the pages are where they stay. Thread-safe. */
CUresult wherryPin(CUdeviceptr devPtr, size_t count);

/* Lets all pages that the range touches move again, pinned or not. They stay where they are until
 * something moves them. CUDA_ERROR_INVALID_VALUE: not a range; CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryUnpin(CUdeviceptr devPtr, size_t count);

/* Pages that lie one after the other in a file. */
typedef struct {
  CUdeviceptr address; /* of the first one, in this process and its devices */
  uint64_t offset;     /* ... in the file */
  uint64_t bytes;
  int fd; /* of the file, this library's: to be passed on or duplicated, not closed */
} wherryPageExtent;

/* Hands the pages of device or managed memory to a third party, a process or a driver: the
 * counterpart of nv-p2p. It may map what the extents say (MAP_SHARED), or read and write it there,
 * for as long as it is held; what lies beside the extents in the file is none of its business, and
 * to touch it there breaks this process's memory. Nothing tells kernels and the host apart from the
 * third party: they see each other's accesses, and order them by means of their own.
 *
 *   p2pToken, vaSpaceToken   of the allocation, from CU_POINTER_ATTRIBUTE_P2P_TOKENS
 *   address, length          bytes of that allocation; all pages that they touch are meant
 *   extents, count           where the pages are, in the order of their addresses. count, in: how
 * many fit; out: how many there are. If that is more, nothing is held
 *
 * Device memory never moves; managed memory is pinned as by wherryPin, and what was not pinned
 * before is unpinned when the allocation's last pages are put. Memory that is freed while pages of
 * it are held is no allocation any more, but stays where it is, at its address, for the third
 * party, until they are put. What is mapped by hand (cuMemMap) lies in the file of its memory,
 * which stays until they are put; its addresses may be another memory's once it is unmapped.
 *
 * CUDA_ERROR_INVALID_VALUE: count NULL, extents NULL with a count, too few of them, tokens that are
 * no live allocation's, or not those of this one's bytes; CUDA_ERROR_NOT_SUPPORTED: memory of a
 * pool, or of the host; CUDA_ERROR_OUT_OF_MEMORY as wherryPin; CUDA_ERROR_NOT_INITIALIZED. Needs no
 * context. Thread-safe. */
CUresult wherryP2PGetPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count);

/* The third party does not use these pages any more: takes one wherryP2PGetPages with the same
 * arguments back, also of memory that was freed since. CUDA_ERROR_INVALID_VALUE: there is none;
 * CUDA_ERROR_NOT_INITIALIZED. Thread-safe. */
CUresult wherryP2PPutPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length);

/* How wherryTouch accesses memory: as a system call does that takes bytes from it, write(2), or one
 * that puts bytes into it, read(2). Both together are the same as the latter. */
#define WHERRY_TOUCH_READ 1u
#define WHERRY_TOUCH_WRITE 2u

/* Accesses every page of the `bytes` bytes from `ptr` on the calling thread, now, so that a system
 * call that follows finds them: where faults inside system calls are not served
 * (docs/system-calls.md) one that is given a page that is elsewhere fails with EFAULT, or stops
 * short of the page. Changes no byte, and is no data race with threads and kernels that access the
 * same bytes. It does what accesses do: pages come to this processor or are mapped where they are,
 * as their advice has it, a page that does not exist yet is created, and WHERRY_TOUCH_WRITE ends
 * other copies.
 *
 * A preparation, not a pin: another processor's next touch may take a page away again, also before
 * the system call. So a call that fails with EFAULT is worth preparing and trying again;
 * libwherry_io does all of that for programs that are not to be changed.
 *
 *   ptr     any address, need not be aligned
 *   bytes   not 0
 *   flags   WHERRY_TOUCH_READ or WHERRY_TOUCH_WRITE, or both
 *
 * A range wholly outside of managed memory's addresses is a success, and nothing is touched: system
 * calls have no trouble there. Returns CUDA_SUCCESS; CUDA_ERROR_INVALID_VALUE: ptr NULL, bytes 0, a
 * range past the last address, no or unknown flags, or a range that is partly or wholly among
 * managed memory's addresses but not inside one live managed allocation; nothing is touched then.
 * CUDA_ERROR_NOT_INITIALIZED. Needs no context.
 *
 * Thread-safe, and async-signal-safe. Also for host functions, and for kernels: in a device it
 * makes the pages accessible to that device, whose own allocations it takes, too. Memory that
 * another thread frees meanwhile, and memory for which there is no room, end in the signal that an
 * access ends in. */
CUresult wherryTouch(const void* ptr, size_t bytes, unsigned flags);

/* One block of 2 MiB, or what was there of it, that left a device's pool to make room. */
typedef struct {
  uint64_t time_ns;  /* CLOCK_MONOTONIC, when it had left */
  CUdeviceptr block; /* where the block begins */
  CUdeviceptr cause; /* the page that needed the room; of a background eviction: the one that came
                        last before */
  uint32_t pages_moved;   /* pages that went to the host */
  uint32_t pages_dropped; /* pages of which others have copies: nothing was moved */
  CUdevice device;
  int background; /* 1: ahead of need, nobody waited for it; 0: a fault needed the room */
} wherryEviction;

/* Takes the oldest evictions out of the library's record of them, which keeps 4096.
 *
 *   events   where they go; NULL if *count is 0
 *   count    in: how many fit in `events`; out: how many were written, 0 when there are no more
 *   dropped  how many evictions since cuInit found the record full, and are missing in it; may be
 * NULL
 *
 * An eviction is there once the memory that it made room for can be accessed.
 * CUDA_ERROR_INVALID_VALUE: count NULL, or events NULL with a count; CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe: each eviction goes to one caller. */
CUresult wherryGetEvictions(wherryEviction* events, size_t* count, uint64_t* dropped);

/* The OS process that runs the device's kernels; a new one after cuDevicePrimaryCtxReset.
 * CUDA_ERROR_INVALID_DEVICE; CUDA_ERROR_INVALID_VALUE: pid NULL; CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryDeviceProcess(CUdevice device, pid_t* pid);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
