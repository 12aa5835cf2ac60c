/* Part of cuda.h, which includes it: memory, and what the program says about the use of it. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_MEMORY_H
#define WHERRY_CUDA_MEMORY_H

/* ---- Allocating ---- */

/* Allocates `bytesize` bytes of managed memory, valid at one address on the host and on every
 * device; zero at first. flags: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST (which here mean the
 * same: devices that access concurrently need no attachment). Takes address space only; pages come
 * with the first touch. CUDA_ERROR_INVALID_VALUE: dptr NULL, bytesize 0, other flags;
 * CUDA_ERROR_OUT_OF_MEMORY: the arena has no such gap, or all managed memory together would not fit
 * into all pools (WHERRY_HOST_CAPACITY); CUDA_ERROR_INVALID_CONTEXT. On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags);

/* Allocates `bytesize` bytes in the pool of the current context's device, where they stay until
 * they are freed; zero at first. That device's kernels alone can touch them: for the host it is a
 * fault that ends in SIGBUS or SIGSEGV with a line in the log, for a kernel elsewhere, unless
 * cuCtxEnablePeerAccess lets it, CUDA_ERROR_ILLEGAL_ADDRESS. Managed memory leaves the pool to make
 * room. Belongs to the process, not to the context, and survives cuDevicePrimaryCtxReset with its
 * contents. CUDA_ERROR_INVALID_VALUE: dptr NULL or bytesize 0; CUDA_ERROR_OUT_OF_MEMORY: the pool
 * is too small, or full of what cannot leave it; CUDA_ERROR_INVALID_CONTEXT. On errors *dptr is 0.
 */
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize);

/* Not supported: devices here have no textures. CUDA_ERROR_NOT_SUPPORTED;
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray);
CUresult CUDAAPI cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray);

/* Frees an allocation, given its first address; 0 does nothing. Needs no context. Waits for work
 * that was given to any stream before, which may still use it. Its pages leave every pool at once,
 * and a later touch by anybody is a fault that ends in SIGSEGV or SIGBUS. CUDA_ERROR_INVALID_VALUE:
 * dptr is not the first address of a live allocation. */
CUresult CUDAAPI cuMemFree(CUdeviceptr dptr);

/* Bytes of the current context's device pool: unused, and in all. Another processor may change the
 * first at any time. CUDA_ERROR_INVALID_VALUE: a NULL pointer; CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total);

/* Gives first address and size, in bytes as asked for, of the allocation that contains dptr. Either
 * pointer may be NULL. CUDA_ERROR_NOT_FOUND: dptr lies in no live allocation, or in what is mapped
 * by hand and the context's device may not access (what was asked for becomes 0);
 * CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr);

/* ---- Advice: what the program says about the use of managed memory ----
 *
 * Advice is a hint: it changes where pages are and how often a processor has to wait for them,
 * never what they contain. It is kept per page of 4 KiB, belongs to the process, and ends when the
 * memory is freed. A range is `count` bytes from devPtr, count not 0, inside one live managed
 * allocation. */

/* Says something about all pages that the range touches.
 *   SET_READ_MOSTLY           it is mostly read: a read by any processor makes a read-only copy in
 * that processor's memory, and a write leaves only the writer's. UNSET_READ_MOSTLY         takes
 * that back: one copy remains, the one at the preferred location if there is one, and nothing makes
 * others until it is set again. SET_PREFERRED_LOCATION    it should be in the memory of `location`.
 * Nothing moves at once; pages that are there stay there, mapped by whoever touches them.
 *   UNSET_PREFERRED_LOCATION  takes that back.
 *   SET_ACCESSED_BY           `location`, a device or the host, uses it: the pages are always
 * mapped there, wherever they are. Nothing moves. UNSET_ACCESSED_BY         takes that back for
 * `location`. READ_MOSTLY goes before PREFERRED_LOCATION, and both before ACCESSED_BY of the same
 * processor.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a node of the
 * host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling thread
 * at this call. READ_MOSTLY and UNSET_PREFERRED_LOCATION ignore which one it is. With CUDA 12
 * names, `device` stands for location: an ordinal or CU_DEVICE_CPU.
 *
 * CUDA_ERROR_INVALID_VALUE: not a range, unknown advice, a location of no such type (with any
 * advice), a device or node that does not exist, or ACCESSED_BY with a HOST_NUMA location;
 * CUDA_ERROR_INVALID_DEVICE: SET_PREFERRED_LOCATION or SET_ACCESSED_BY with a device that has no
 * CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, or, where `device` is a number, one that does not
 * exist; CUDA_ERROR_INVALID_CONTEXT. On errors nothing changes. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device);
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location);
#else
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUmemLocation location);
#endif

/* Gives in data[0, dataSize) one attribute of the pages from devPtr's on, as many as count rounded
 * up to whole pages. All are 32-bit integers, dataSize 4 bytes; only ACCESSED_BY is an array of
 * them, dataSize any multiple of 4 but 0. READ_MOSTLY             1: all pages have it set; else 0.
 *   PREFERRED_LOCATION      what all pages have in common: a device, or CU_DEVICE_CPU for the host
 * and its nodes; CU_DEVICE_INVALID: there is no such, or a page has none. PREFERRED_LOCATION_TYPE
 * the same as a CUmemLocationType; all pages must agree on the node, too.
 *                           CU_MEM_LOCATION_TYPE_INVALID: there is none.
 *   PREFERRED_LOCATION_ID   its id: a device, a node, CU_DEVICE_CPU for the host as a whole, else
 *                           CU_DEVICE_INVALID.
 *   ACCESSED_BY             the processors that have it set for all pages, devices before
 * CU_DEVICE_CPU, as many as fit; CU_DEVICE_INVALID in the rest. LAST_PREFETCH_LOCATION, _TYPE, _ID
 *                           as PREFERRED_LOCATION, of the location that the program last asked to
 *                           prefetch to. It does not say whether the prefetch has happened yet.
 * Where pages are at this moment is another question: see wherryPageInfo.
 * CUDA_ERROR_INVALID_VALUE: not a range, data NULL, an unknown attribute or a wrong size, and
 * nothing is written; CUDA_ERROR_INVALID_CONTEXT. As with a real driver a count that leads past the
 * last address is no error: it asks of no pages, of which READ_MOSTLY and ACCESSED_BY are all true.
 */
CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t dataSize,
                                        CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                        size_t count);

/* Gives numAttributes attributes of one range: attributes[i] in data[i][0, dataSizes[i]). Errors as
 * cuMemRangeGetAttribute for each of them, then nothing is written; CUDA_ERROR_INVALID_VALUE also:
 * an array NULL, or numAttributes 0. */
CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                         CUmem_range_attribute* attributes, size_t numAttributes,
                                         CUdeviceptr devPtr, size_t count);

/* ---- Prefetching: managed memory that moves ahead of its use ----
 *
 * Nothing has to be prefetched: it saves the faults that would have moved the pages later. Pages
 * may be touched by anybody at any time, also while they move. A range is as for advice, and its
 * pages are all that it touches. Every call returns without waiting for data; the work begins when
 * that given to the stream before has finished, and the work given after waits for it.
 *
 * True of every function of this section: CUDA_ERROR_INVALID_DEVICE: a destination, or the stream's
 * device, that has no CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS; CUDA_ERROR_INVALID_HANDLE: not
 * a stream; CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context; the error of
 * the stream's context. */

/* Has the pages of the range moved to `location`, created and mapped there if they are nowhere yet.
 * Read-mostly pages get a copy there instead, a preferred location elsewhere changes nothing, and
 * who is advised to access them has its mappings follow. If the destination is full others leave
 * it; what finds no room stays where it is. flags: 0.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a node of the
 * host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling thread
 * at this call, whatever id is. With CUDA 12 names, `dstDevice` stands for location: an ordinal or
 * CU_DEVICE_CPU.
 *
 * CUDA_ERROR_INVALID_VALUE: not a range, flags not 0, a location of no such type, or a node that
 * does not exist; CUDA_ERROR_INVALID_DEVICE: also a device that does not exist, if all else is
 * right; CUDA_ERROR_OUT_OF_MEMORY: more than the host may hold at all (WHERRY_HOST_CAPACITY). On
 * errors nothing changes. As with a real driver a count that leads past the last address is no
 * error, and prefetches nothing. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream);
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream);
#else
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream);
#endif

/* The same for `count` ranges of sizes[i] bytes from dptrs[i], in one piece of work.
 * prefetchLocs[k] is the location of the ranges from number prefetchLocIdxs[k] on, up to the next
 * one's; the first number is 0. A number that is not larger than the one before it is skipped with
 * all that follow, as by a real driver. flags: 0. hStream must not be the context's default stream.
 *
 * CUDA_ERROR_INVALID_VALUE: an array NULL; count or numPrefetchLocs 0, or more locations than
 * ranges; a first number that is not 0, or one that no range has; flags not 0; the context's
 * default stream; a location that is none or does not exist: then nothing changes. Also: a range
 * that is none, and then those before it are prefetched. CUDA_ERROR_OUT_OF_MEMORY: likewise, at the
 * range with which more would go to the host than it may hold at all. */
CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                         CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags,
                                         CUstream hStream);

/* Says of `count` ranges of sizes[i] bytes from dptrs[i] that their contents are not needed any
 * more: until it is written again each byte reads as anything. Only pages that hold nothing but
 * bytes of the range are forgotten. Advice and the last prefetch location stay. flags and hStream
 * as above, and errors as those of cuMemPrefetchBatchAsync without locations. */
CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                        unsigned long long flags, CUstream hStream);

/* Both in one: has the pages at their locations, without the contents that are not needed any more.
 * Arguments and errors as those of cuMemPrefetchBatchAsync. */
CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                   CUmemLocation* prefetchLocs,
                                                   size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                   unsigned long long flags, CUstream hStream);

#endif
