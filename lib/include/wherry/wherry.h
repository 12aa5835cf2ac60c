/* Wherry's extensions to the CUDA driver API: launching host code on a device, counters, querying
 * where a page is, pinning pages or handing them to third parties, preparing pages for a system
 * call, and threads of the program that count as a device.
 *
 * Compiles as C11 and C++. Every function may be called from any thread of the process that called
 * cuInit; in a child made by fork() each returns CUDA_ERROR_NOT_INITIALIZED. Kernels may only call
 * wherryTouchPages. CUDA_ERROR_NOT_INITIALIZED without a condition means that cuInit has not
 * succeeded. */
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

/* A kernel. It is called for pieces [begin, end) of a launch, on worker threads of the device's
 * process. `args` is the device's own copy of the argument block, aligned to 64 bytes, valid until
 * the call returns. */
typedef void (*wherryKernel)(const void* args, size_t begin, size_t end);

/* Runs `kernel` over [0, items) on the stream's device, split across its workers, in stream order;
 * asynchronous.
 *   - stream: a stream, or NULL for the current context's default stream.
 *   - kernel: a function of this program, or of a shared object (loaded before or after cuInit).
 *   - args: `args_size` bytes (at most WHERRY_MAX_ARGS_SIZE), copied before the call returns; may
 *     be NULL if args_size is 0. The bytes are used in another process: pointers in them are valid
 *     if they point to managed memory.
 *   - items: length of the index range; 0 runs nothing and succeeds.
 * Returns CUDA_SUCCESS or:
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - CUDA_ERROR_INVALID_CONTEXT: no current context, and stream is NULL.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream.
 * - CUDA_ERROR_INVALID_VALUE: kernel is NULL, args is NULL with a size, or args_size is too large.
 * - CUDA_ERROR_NOT_FOUND: the kernel lies in no loaded module.
 * - The context's sticky error: CUDA_ERROR_ILLEGAL_ADDRESS (a kernel accessed memory that its
 *   device cannot access) or CUDA_ERROR_LAUNCH_FAILED (a kernel threw, aborted or exited, or the
 *   device's process died).
 * Thread-safe. */
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define wherryLaunchKernel __CUDA_API_PTSZ(wherryLaunchKernel)
#define wherryLaunch __CUDA_API_PTSZ(wherryLaunch)
#endif
CUresult wherryLaunchKernel(CUstream stream, wherryKernel kernel, const void* args,
                            size_t args_size, size_t items);

/* Declares variables of a file, or static variables of a function, as managed memory:
 *
 *     WHERRY_MANAGED double weights[1000];
 *     static WHERRY_MANAGED int rounds = 5;
 *
 * It works in the program, in shared libraries, and in modules that are loaded later; in C and C++.
 * Every processor then has the variable at the same address. All functions treat it like memory of
 * cuMemAllocManaged, except that it is never freed. It becomes managed memory at the first cuInit;
 * in a library that is loaded after that, at the next launch or the next call that is given its
 * address; in a module, at cuModuleLoad. Before that it is an ordinary variable. It keeps its
 * contents. No other thread may write it during the call that makes it managed memory.
 *
 * Each variable takes whole pages of 4096 bytes. It must not be const or thread-local, and must
 * need no constructor. A library that has such variables stays loaded. A program that uses a
 * library's variables must declare them `extern __attribute__((weak))` or be compiled with -fPIC:
 * otherwise the linker may place a copy in the program, which is an ordinary variable (the log says
 * so). A child made by fork() has its own copies, which are ordinary memory. */
#define WHERRY_MANAGED __attribute__((section("wherry_managed"), aligned(4096)))
/* Starts a new page after these variables, so that no other variable shares their last page. */
__asm__(
    ".pushsection wherry_managed,\"aw\",%progbits\n"
    ".balign 4096\n"
    ".popsection\n"
    ".pushsection wherry_managed_end,\"awG\",%progbits,wherry_managed_end,comdat\n"
    ".balign 4096\n"
    ".byte 0\n"
    ".popsection\n");

/* The launch that a kernel of cuLaunchKernel is called for. The threads of all its blocks have the
 * numbers from 0 to `threads` - 1: all threads of one block first, x fastest. */
typedef struct {
  size_t begin; /* the first thread of this call */
  size_t end;   /* one past the last thread of this call */
  size_t threads;
  unsigned gridDim[3];
  unsigned blockDim[3];
  unsigned sharedMemBytes;
} wherryLaunchInfo;

/* A kernel of cuLaunchKernel, exported by a module under its own name (in C++: extern "C").
 * params[i] points to the device's copy of parameter i, aligned to 16 bytes, valid until the call
 * returns. A launch makes several such calls concurrently, each for whole thread blocks. */
typedef void (*wherryGridKernel)(const wherryLaunchInfo* info, void** params);

/* Declares the sizes of a kernel's parameters, at most WHERRY_MAX_PARAMS of them:
 *
 *     void touch(const wherryLaunchInfo* info, void** params) { ... }
 *     WHERRY_KERNEL_PARAMS(touch, sizeof(char*), sizeof(uint32_t));
 *
 * Exactly these bytes are then copied. For a kernel without the declaration the sizes are unknown:
 * the library copies what each of the 16 pointers at kernelParams points to, 64 bytes or as many as
 * are readable. Pointers that point to nothing readable, or into managed memory, are NULL in
 * `params`; kernelParams may be shorter. The declaration is therefore required for a parameter of
 * more than 64 bytes, a 17th parameter, a parameter that lies in managed memory, and
 * cuLaunchKernel's `extra`. */
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

/* Returns what went wrong in the calling thread's latest failed call of any function of this
 * library:
 *
 *     cuMemAdvise: CUDA_ERROR_INVALID_VALUE (invalid argument): the range 0x7e4000000000+8192 ends
 *     4096 bytes after its allocation 0x7e4000000000+4096; stay inside one allocation
 *
 * (one line): the function, the code's name and description, the argument, handle or range, the
 * reason, and what to do (docs/debugging.md). A failure of the runtime API may name the function of
 * the driver API that it called, or that function's argument.
 * It is "" if no call of the thread has failed. CUDA_ERROR_NOT_READY is no failure, and failures of
 * cuGetErrorName and cuGetErrorString do not count. Successful calls leave the message as it is.
 *
 * The text is valid until the thread's next failed call, and the thread must copy it to keep it.
 * It is never NULL. Does not need cuInit, and works in a child of fork(), which has the message of
 * the thread that forked. Thread-safe; not async-signal-safe. */
const char* wherryGetLastErrorMessage(void);

/* Counters of one processor since cuInit. Pages are 4096 bytes. */
typedef struct {
  uint64_t faults_missing;       /* faults: the pool that it maps there has no page */
  uint64_t faults_minor;         /* faults: that pool has the page, but the page table no entry */
  uint64_t faults_write_protect; /* faults: a write to a write-protected page */
  uint64_t populated;            /* pages created (zeroed) in this processor's pool */
  uint64_t migrated_in;     /* pages moved into this processor's pool, by faults and eviction */
  uint64_t migrated_out;    /* pages moved from this processor's pool to another */
  uint64_t duplicated;      /* read-only copies made in this processor's pool */
  uint64_t collapsed;       /* pages whose other copies were dropped because this processor wrote */
  uint64_t mapped_remotely; /* pages that it mapped and that stay in another processor's pool */
  uint64_t evicted;         /* pages evicted from this processor's pool */
  uint64_t prefetched;      /* pages brought into this processor's pool by prefetch */
  uint64_t bytes_copied;    /* bytes copied into this processor's pool */
  uint64_t service_ns;      /* nanoseconds spent resolving this processor's faults */
} wherryProcessorStats;

/* Counters of all processors together, and of each. The caller sets `size` to sizeof(wherryStats)
 * before the call. Fields beyond `size` are not written; fields that this library does not know are
 * set to 0. */
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
  uint64_t processors;                                   /* number of valid elements that follow */
  wherryProcessorStats processor[WHERRY_MAX_PROCESSORS]; /* [0] the host, [1+d] device d */
  uint64_t thrashing_detected;                           /* these four: see docs/policies.md */
  uint64_t throttled;
  uint64_t thrash_pinned;
  uint64_t thrash_unpinned;
  /* Pages of huge pages that stayed in a pool because a system call, a pipe or another process held
   * them when they were to move (docs/system-calls.md): in all pools, and in each. */
  uint64_t held;
  uint64_t processor_held[WHERRY_MAX_PROCESSORS]; /* [0] the host, [1+d] device d */
} wherryStats;

/* Chooses the policy that decides where pages go when the program has given no advice. Must be
 * called before cuInit, and replaces the choice of WHERRY_POLICY. `policy` has the syntax of
 * WHERRY_POLICY: "NAME" or "NAME,PARAMETER=NUMBER,..." (`wherry policies` lists them), or the path,
 * containing a slash, of a shared object (wherry/policy.hpp), which is loaded.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: policy is NULL, there is no such policy or parameter, or the number
 *   is out of its range; a log line says which.
 * - CUDA_ERROR_NOT_PERMITTED: the library is already initialized.
 * On errors nothing changes. Thread-safe. */
CUresult wherrySetPolicy(const char* policy);

/* Reads the counters. Each is exact once the accesses that caused it have returned; a snapshot that
 * is taken during other accesses may mix values of different moments.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: stats is NULL, or size is smaller than one field.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryGetStats(wherryStats* stats);

/* Where one page is. In the masks bit 0 is the host, bit 1+d device d. The caller sets `size`. */
typedef struct {
  size_t size;
  uint32_t resident;     /* processors whose pool holds a copy of the page */
  uint32_t mapped_read;  /* processors whose page table may hold an entry for it */
  uint32_t mapped_write; /* processors whose page table may hold a writable entry for it */
  int32_t node;          /* NUMA node of the first resident copy, as Linux says; -1: not resident */
} wherryPageState;

/* Returns where the page that contains `address` is, under the lock that moves of the page take.
 * Does not access the page.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: the address is in no live allocation, managed or a device's own,
 *   state is NULL, or size is too small.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryGetPageState(const void* address, wherryPageState* state);

/* Pins all pages that the `count` bytes from devPtr overlap: until wherryUnpinPages each page stays
 * in the memory where it is, and its physical address never changes. This is for memory that
 * something other than a processor works on: a device driver, an I/O request, or a peer that knows
 * the physical address. docs/system-calls.md says which ways of Linux to access memory need it.
 *
 * Processors can still access the pages at any time: those whose memory does not hold a page map it
 * where it is. Faults, evictions, prefetches and advice do not move it, and it has no copies: of
 * existing copies the host's stays, else that of the device with the lowest number. Absent pages
 * are created (zeroed) where an access by the host would create them: in the memory of their
 * preferred location, else of the host. Pinned memory cannot be evicted. Pinning pinned pages again
 * changes nothing: calls are not counted. Freeing the memory ends the pin.
 *
 * A range is `count` bytes, not 0, inside one live managed allocation. Needs no context. Returns
 * when the pages are where they stay.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a range.
 * - CUDA_ERROR_OUT_OF_MEMORY: there is no space for absent pages; then no page is pinned that was
 *   not pinned before.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryPinPages(CUdeviceptr devPtr, size_t count);

/* Lets all pages that the range overlaps move again, whether or not they were pinned. They stay
 * where they are until something moves them.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a range.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryUnpinPages(CUdeviceptr devPtr, size_t count);

/* Pages that are contiguous in a file. */
typedef struct {
  CUdeviceptr address; /* of the first page, in this process and its devices */
  uint64_t offset;     /* of the first page in the file */
  uint64_t bytes;
  int fd; /* of the file; owned by this library: may be passed on or duplicated, not closed */
} wherryPageExtent;

/* Hands the pages of device or managed memory to a third party, which is a process or a driver: the
 * counterpart of nv-p2p. While the pages are held, the third party may map the extents
 * (MAP_SHARED), or read and write them in the file. It must not access other parts of the file,
 * which would corrupt this process's memory. Kernels, the host and the third party see each other's
 * accesses directly, and must order them by their own means.
 *   - p2pToken, vaSpaceToken: the allocation's tokens, from CU_POINTER_ATTRIBUTE_P2P_TOKENS.
 *   - address, length: bytes of that allocation; all pages that they overlap are held.
 *   - extents, count: receive where the pages are, in the order of their addresses. count, in: the
 *     number of elements of extents; out: the number of extents. If that is larger, nothing is
 *     held.
 * Device memory never moves. Managed memory is pinned as by wherryPinPages; pages that were not
 * pinned before are unpinned when the allocation's last pages are put. Memory that is freed while
 * its pages are held is no allocation any more, but stays where it is, at its address, for the
 * third party, until the pages are put. Memory mapped with cuMemMap lies in the file of its memory,
 * which exists until the pages are put; after it is unmapped, its addresses may be used for other
 * memory.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: count is NULL, extents is NULL with a count, extents has too few
 *   elements, or the tokens belong to no live allocation, or not to the one that contains the
 *   bytes.
 * - CUDA_ERROR_NOT_SUPPORTED: memory of a pool, or of the host.
 * - CUDA_ERROR_OUT_OF_MEMORY: as for wherryPinPages.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Needs no context. Thread-safe. */
CUresult wherryGetP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count);

/* Declares that the third party no longer uses these pages: undoes one wherryGetP2PPages with the
 * same arguments, also for memory that has been freed since.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: there is no such call to undo.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryPutP2PPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length);

/* How wherryTouchPages accesses memory. READ: like a system call that takes bytes from it,
 * write(2). WRITE: like a system call that puts bytes into it, read(2). Both together are the same
 * as WRITE. */
#define WHERRY_TOUCH_READ 1u
#define WHERRY_TOUCH_WRITE 2u

/* Accesses every page of the `bytes` bytes from `ptr` on the calling thread, now, so that a system
 * call that follows finds them. Where faults inside system calls are not handled
 * (docs/system-calls.md), a system call on a page that is elsewhere fails with EFAULT or stops
 * before the page. wherryTouchPages changes no byte, and is no data race with threads and kernels
 * that access the same bytes. It has the effects of such accesses: pages move to this processor or
 * are mapped where they are, as their advice says; absent pages are created; and WHERRY_TOUCH_WRITE
 * drops other copies.
 *
 * This prepares the pages; it does not pin them. Another processor's next access may take a page
 * away again, also before the system call. A call that fails with EFAULT should therefore be
 * prepared and tried again; libwherry_io does that for unmodified programs.
 *   - ptr: any address, need not be aligned.
 *   - bytes: not 0.
 *   - flags: WHERRY_TOUCH_READ or WHERRY_TOUCH_WRITE, or both.
 * For a range that lies completely outside of managed memory's addresses it succeeds and accesses
 * nothing: system calls work there. Returns CUDA_SUCCESS or:
 * - CUDA_ERROR_INVALID_VALUE, and nothing is accessed: ptr is NULL, bytes is 0, the range reaches
 *   past the last address, no or unknown flags, or the range is partly or completely among managed
 *   memory's addresses but not inside one live managed allocation.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Needs no context. Thread-safe and async-signal-safe. Host functions and kernels may call it, too:
 * in a device it makes the pages accessible to that device, and also accepts the device's own
 * allocations. If another thread frees the memory meanwhile, or there is no space for it, the
 * result is the same signal as for an access. */
CUresult wherryTouchPages(const void* ptr, size_t bytes, unsigned flags);

/* wherryFreePages, wherrySavePages and wherryMakePrivate are for libraries that hand out managed
 * memory in the place of ordinary memory. For all of them:
 *   - ptr: aligned to pages of 4096 bytes; the range is inside one live managed allocation.
 *   - bytes: not 0; rounded up to pages.
 * Each returns CUDA_SUCCESS or:
 * - CUDA_ERROR_INVALID_VALUE, and nothing has changed: the range is not as described above.
 * - CUDA_ERROR_NOT_PERMITTED, and nothing has changed: a page is pinned (wherryPinPages).
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - the errors that the function's comment adds.
 * Each needs no context, waits for transfers of these pages, and is thread-safe. */

/* Frees the pages: their contents are lost, and the next access finds zeros, as after
 * madvise(MADV_DONTNEED) on private memory. The addresses stay allocated. */
CUresult wherryFreePages(CUdeviceptr ptr, size_t bytes);
/* Writes the pages to a file, the first one at `offset`, without moving them. Leaves holes for
 * pages that do not exist, and creates none. A page that another thread writes meanwhile is saved
 * as it was at some moment of the call; pages may be pinned.
 *   - fd: open for writing at any offset.
 * It also returns CUDA_ERROR_OPERATING_SYSTEM: Linux did not write everything (errno says why). */
CUresult wherrySavePages(CUdeviceptr ptr, size_t bytes, int fd, off_t offset);
/* Turns a managed allocation into private anonymous memory of the program, at the same addresses
 * and with the same contents. Threads of the program may use it meanwhile; those that write wait.
 * Afterwards it is not managed: cuMemFree refuses it, and munmap, mprotect, mremap, mlock and
 * fork() do what they do with all private memory. Its addresses are never allocated again.
 *   - ptr: the start of an allocation of at least 2 MiB that no isolated device is using.
 * It also returns CUDA_ERROR_NOT_SUPPORTED, and nothing has changed: the allocation is smaller; and
 * CUDA_ERROR_OUT_OF_MEMORY, and nothing has changed. */
CUresult wherryMakePrivate(CUdeviceptr ptr);

/* The eviction of one block of 2 MiB, or of those of its pages that were resident, from a device's
 * pool. */
typedef struct {
  uint64_t time_ns;  /* CLOCK_MONOTONIC, at the end of the eviction */
  CUdeviceptr block; /* address of the block */
  /* The page that needed the space; for a background eviction: the last page that had arrived. */
  CUdeviceptr cause;
  uint32_t pages_moved;   /* pages that were moved to the host */
  uint32_t pages_dropped; /* pages that were not moved, because other pools have copies */
  CUdevice device;
  int background; /* 1: ahead of need, no fault waited; 0: a fault needed the space */
} wherryEviction;

/* Removes the oldest evictions from the library's record of them, which holds 4096, and returns
 * them.
 *   - events: receives the evictions; may be NULL if *count is 0.
 *   - count: in: the number of elements of `events`; out: the number written, 0 when there are no
 *     more.
 *   - dropped: receives the number of evictions since cuInit that are missing because the record
 *     was full; may be NULL.
 * An eviction is in the record once the memory that it made space for can be accessed.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: count is NULL, or events is NULL with a count.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe: each eviction is returned to one caller. */
CUresult wherryGetEvictions(wherryEviction* events, size_t* count, uint64_t* dropped);

/* Returns the process that runs the device's kernels. cuDevicePrimaryCtxReset starts a new one. For
 * a coherent device it is this process, also after a reset.
 * Errors:
 * - CUDA_ERROR_INVALID_DEVICE.
 * - CUDA_ERROR_INVALID_VALUE: pid is NULL.
 * - CUDA_ERROR_NOT_INITIALIZED.
 * Thread-safe. */
CUresult wherryGetDeviceProcess(CUdevice device, pid_t* pid);

/* Threads of the program that count as a coherent device (WHERRY_DEVICES: kind=coherent).
 *
 * A coherent device has memory of its own, but shares the program's page table, so any thread of
 * the program can be a part of it. The accesses of a thread that counts as a device to managed
 * memory are accesses by that device: its faults bring pages to the device, and policies, advice
 * and counters see that device. The accesses of all other threads are the host's. The device's own
 * workers, which run its kernels, always count as the device.
 *
 * A thread attaches only itself, and is detached when it ends. The attachment concerns nothing
 * else: not the thread's current context, its CPUs, or which work it may submit. Threads that it
 * starts are not attached; nor is a child made by fork(). At most 8192 threads can be attached at a
 * time, the devices' workers included.
 *
 * All four functions return CUDA_ERROR_NOT_PERMITTED in host functions and in kernels of coherent
 * devices. They are thread-safe, but not async-signal-safe, and need no context. */

/* Makes the calling thread count as `device`, from its next access on, until it calls
 * wherryThreadDetach, attaches itself in another way, which replaces this attachment, or ends.
 * Errors, which change nothing:
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - CUDA_ERROR_INVALID_DEVICE: there is no such device.
 * - CUDA_ERROR_NOT_SUPPORTED: the device is not coherent.
 * - CUDA_ERROR_OUT_OF_MEMORY: too many threads are attached.
 * - CUDA_ERROR_NOT_PERMITTED: the thread is ending, and its attachment has ended already, with the
 *   destructors of its thread-local variables. */
CUresult wherryThreadAttach(CUdevice device);

/* Makes the calling thread count, at each moment, as the coherent device on whose NUMA node it
 * runs, and as the host while it runs elsewhere. If several coherent devices share the node, it
 * counts as the first of them. CPUs that the process could not use at cuInit are the host's.
 * Replaces another attachment of the thread.
 * Errors, which change nothing:
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - CUDA_ERROR_NOT_SUPPORTED: no coherent device is on a node with CPUs, or the C library does not
 *   have Linux tell on which CPU a thread runs (glibc before 2.35, or glibc.pthread.rseq=0).
 * - CUDA_ERROR_OUT_OF_MEMORY and CUDA_ERROR_NOT_PERMITTED: as for wherryThreadAttach. */
CUresult wherryThreadAttachByCpu(void);

/* Ends the calling thread's attachment: it counts as the host again. Pages stay where they are.
 * Errors:
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - CUDA_ERROR_INVALID_VALUE: the thread is not attached. */
CUresult wherryThreadDetach(void);

/* Tells which processor the calling thread counts as.
 *   - device: receives the device that it counts as now, or CU_DEVICE_CPU (-1) for the host.
 *   - byCpu: receives 1 if it is attached by wherryThreadAttachByCpu, else 0; may be NULL. A thread
 *     with -1 and 0 is not attached.
 * Errors:
 * - CUDA_ERROR_NOT_INITIALIZED.
 * - CUDA_ERROR_INVALID_VALUE: device is NULL. */
CUresult wherryThreadDevice(CUdevice* device, int* byCpu);

/* Earlier names of functions and types above, which remain available. */
CUresult wherryLaunch(CUstream stream, wherryKernel kernel, const void* args, size_t args_size,
                      size_t items);
typedef wherryPageState wherryPageInfo_t;
CUresult wherryPageInfo(const void* address, wherryPageInfo_t* info);
CUresult wherryPin(CUdeviceptr devPtr, size_t count);
CUresult wherryUnpin(CUdeviceptr devPtr, size_t count);
CUresult wherryP2PGetPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length, wherryPageExtent* extents,
                           size_t* count);
CUresult wherryP2PPutPages(unsigned long long p2pToken, unsigned int vaSpaceToken,
                           CUdeviceptr address, size_t length);
CUresult wherryTouch(const void* ptr, size_t bytes, unsigned flags);
CUresult wherryDeviceProcess(CUdevice device, pid_t* pid);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
