/* Part of cuda.h, which includes it: memory, advice and prefetching. */
#include "../cuda.h"

#ifndef WHERRY_CUDA_MEMORY_H
#define WHERRY_CUDA_MEMORY_H

/* ---- Allocation ---- */

/* Allocates `bytesize` bytes of managed memory, valid at one address on the host and on every
 * device; initially zero. flags: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST (equivalent here:
 * devices with concurrent access need no attachment). Only takes address space; a page is created
 * at its first access.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr is NULL, bytesize is 0, or flags are others.
 * - CUDA_ERROR_OUT_OF_MEMORY: the arena has no free range of that size, or all managed memory
 *   together would not fit into all pools (WHERRY_HOST_CAPACITY).
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors *dptr is 0. */
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags);

/* Allocates `bytesize` bytes in the pool of the current context's device, where they stay until
 * they are freed; initially zero, or what the program left in memory that it has freed. Only
 * kernels of that device can access them. An access by the host ends in SIGBUS or SIGSEGV with a
 * line in the log. An access by a kernel of another device is CUDA_ERROR_ILLEGAL_ADDRESS, unless
 * cuCtxEnablePeerAccess permits it. If the pool is full, managed memory is evicted from it. The
 * memory belongs to the process, not to the context, and survives cuDevicePrimaryCtxReset with its
 * contents.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr is NULL, or bytesize is 0.
 * - CUDA_ERROR_OUT_OF_MEMORY: the pool is too small, or full of memory that cannot be evicted.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors *dptr is 0. */
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize);

/* Not supported, because devices have no textures.
 * Errors:
 * - CUDA_ERROR_NOT_SUPPORTED: always, if there is a current context.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuArrayCreate(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray);
CUresult CUDAAPI cuArray3DCreate(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray);

/* Frees an allocation, given its first address; 0 does nothing. Needs no context. Waits for work
 * that was submitted to any stream before, because it may still use the memory. The pages are
 * removed from every pool at once. A later access by any processor is a fault that ends in SIGSEGV
 * or SIGBUS.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: dptr is not the first address of a live allocation. */
CUresult CUDAAPI cuMemFree(CUdeviceptr dptr);

/* Returns the unused bytes and the capacity, in bytes, of the pool of the current context's device.
 * Other processors may change the unused bytes at any time.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: a pointer is NULL.
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total);

/* Returns the first address and the requested size, in bytes, of the allocation that contains dptr.
 * Either pointer may be NULL.
 * Errors:
 * - CUDA_ERROR_NOT_FOUND: dptr lies in no live allocation, or in memory mapped with cuMemMap that
 *   the context's device may not access (the requested values become 0).
 * - CUDA_ERROR_INVALID_CONTEXT. */
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr);

/* ---- Advice: how the program uses its memory ----
 *
 * Advice is a hint: it changes where pages are and how often a processor has to wait for them,
 * never what they contain. It is kept for each page of 4 KiB, belongs to the process, and ends when
 * the memory is freed. A range is `count` bytes from devPtr, where count is not 0, inside one live
 * managed allocation.
 *
 * If a device has CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, a range may also be memory that this
 * library neither allocated nor registered (malloc, mmap, stacks, mapped files), if all of it is
 * mapped and accessible. Linux places such memory: a preferred location is a memory policy of the
 * range (mbind), unless the program has set one itself. READ_MOSTLY and ACCESSED_BY are remembered
 * and change nothing, because processors share the page table. In a forked process the copies of
 * this memory keep their policies; the library cannot be used there. */

/* Gives advice for all pages that the range overlaps:
 *   - SET_READ_MOSTLY: the pages are mostly read. A read by any processor makes a read-only copy in
 *     that processor's memory; a write leaves only the writer's copy.
 *   - UNSET_READ_MOSTLY: undoes that. One copy remains, the one at the preferred location if there
 *     is one, and no other copies are made until it is set again.
 *   - SET_PREFERRED_LOCATION: the pages should be in the memory of `location`. They do not move at
 *     once. Pages that are there stay there; processors that access them map them.
 *   - UNSET_PREFERRED_LOCATION: undoes that.
 *   - SET_ACCESSED_BY: `location`, a device or the host, uses the pages. They are always mapped
 *     there, wherever they are. They do not move.
 *   - UNSET_ACCESSED_BY: undoes that for `location`.
 * READ_MOSTLY has precedence over PREFERRED_LOCATION, and both over ACCESSED_BY of the same
 * processor.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a NUMA node
 * of the host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling
 * thread at this call. READ_MOSTLY and UNSET_PREFERRED_LOCATION ignore the location except
 * its type. With CUDA 12 names, `device` replaces location: an ordinal or CU_DEVICE_CPU.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a range, unknown advice, a location of an unknown type (with any
 *   advice), a device or node that does not exist, or ACCESSED_BY with a HOST_NUMA location.
 * - CUDA_ERROR_INVALID_DEVICE: SET_PREFERRED_LOCATION or SET_ACCESSED_BY with a device without
 *   CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, or, if `device` is a number, one that does not
 *   exist. For memory that is not managed, also with a device without
 *   CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, and for UNSET_ACCESSED_BY, too.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * On errors nothing changes. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device);
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location);
#else
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUmemLocation location);
#endif

/* Returns in data[0, dataSize) one attribute of the pages that begin with devPtr's page; their
 * number is count rounded up to whole pages. The values are 32-bit integers and dataSize is 4
 * bytes, except for ACCESSED_BY: an array of such integers, where dataSize is any multiple of 4 but
 * 0.
 *   - READ_MOSTLY: 1 if all pages have it set, else 0.
 *   - PREFERRED_LOCATION: the location that all pages have: a device, or CU_DEVICE_CPU for the host
 *     and its nodes. CU_DEVICE_INVALID: the pages differ, or a page has none.
 *   - PREFERRED_LOCATION_TYPE: the same as a CUmemLocationType; all pages must agree on the node,
 *     too. CU_MEM_LOCATION_TYPE_INVALID: there is none.
 *   - PREFERRED_LOCATION_ID: its id: a device, a node, CU_DEVICE_CPU for the host as a whole, else
 *     CU_DEVICE_INVALID.
 *   - ACCESSED_BY: the processors that are set for all pages, devices before CU_DEVICE_CPU, as many
 *     as fit; CU_DEVICE_INVALID in the remaining elements.
 *   - LAST_PREFETCH_LOCATION, _TYPE, _ID: as PREFERRED_LOCATION, but the destination of the
 *     program's last prefetch. It does not say whether that prefetch has completed.
 * Use wherryGetPageState for where the pages are at this moment.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a range, data is NULL, an unknown attribute, or a wrong size.
 *   Nothing is written.
 * - CUDA_ERROR_INVALID_CONTEXT.
 * As with a real driver, a count that leads past the last address is no error with managed memory:
 * it selects no pages, for which READ_MOSTLY and ACCESSED_BY are all true. */
CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t dataSize,
                                        CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                        size_t count);

/* Returns numAttributes attributes of one range: attributes[i] in data[i][0, dataSizes[i]). Errors
 * are those of cuMemRangeGetAttribute for each attribute; on errors nothing is written. In
 * addition:
 * - CUDA_ERROR_INVALID_VALUE: an array is NULL, or numAttributes is 0. */
CUresult CUDAAPI cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                         CUmem_range_attribute* attributes, size_t numAttributes,
                                         CUdeviceptr devPtr, size_t count);

/* ---- Prefetching: moving memory before it is used ----
 *
 * Prefetching is optional: it avoids the faults that would move the pages later. Any processor may
 * access pages at any time, also while they move. A range is as for advice and means all pages that
 * it overlaps. No call waits for data. The work begins when the work that was submitted to the
 * stream before has finished, and the work that is submitted later waits for it.
 *
 * Errors of every function of this section:
 * - CUDA_ERROR_INVALID_DEVICE: a destination, or the stream's device, does not have
 *   CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS; or memory that is not managed has a destination
 *   without CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS.
 * - CUDA_ERROR_INVALID_HANDLE: not a stream.
 * - CUDA_ERROR_INVALID_CONTEXT: a default stream without a current context.
 * - The error of the stream's context. */

/* Moves the pages of the range to `location`. Absent pages are created and mapped there.
 * Read-mostly pages get a copy there instead. A preferred location elsewhere has no effect. The
 * mappings of processors that are advised as ACCESSED_BY follow. If the destination is full, other
 * pages are evicted from it; pages for which there is no space stay where they are. flags: 0.
 *
 * Memory that is not managed (see advice): Linux moves the pages to the location's NUMA nodes, and
 * creates absent pages of private anonymous memory that may be written. Pages that cannot move
 * stay, without an error: pages that other processes map, too, and pinned pages.
 *
 * location: CU_MEM_LOCATION_TYPE_DEVICE with an ordinal in id; _HOST; _HOST_NUMA with a NUMA node
 * of the host in id; _HOST_NUMA_CURRENT, the host's node that is nearest to the CPU of the calling
 * thread at this call, whatever id is. With CUDA 12 names, `dstDevice` replaces location: an
 * ordinal or CU_DEVICE_CPU.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE: not a range, flags is not 0, a location of an unknown type, or a node
 *   that does not exist.
 * - CUDA_ERROR_INVALID_DEVICE: also a device that does not exist, if all other arguments are valid.
 * - CUDA_ERROR_OUT_OF_MEMORY: the range is larger than the host's capacity (WHERRY_HOST_CAPACITY).
 * On errors nothing changes. As with a real driver, a count that leads past the last address is no
 * error with managed memory, and prefetches nothing. */
#if WHERRY_CUDA_API == 12
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream);
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream);
#else
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream);
#endif

/* Prefetches `count` ranges of sizes[i] bytes from dptrs[i], as one piece of work.
 * prefetchLocs[k] is the location of the ranges from index prefetchLocIdxs[k] up to the next
 * location's first index; the first index is 0. An index that is not larger than the one before it
 * is ignored, with all that follow, as by a real driver. flags: 0. hStream must not be the
 * context's default stream.
 * Errors:
 * - CUDA_ERROR_INVALID_VALUE, and nothing changes: an array is NULL; count or numPrefetchLocs is 0,
 *   or there are more locations than ranges; the first index is not 0, or an index is beyond the
 *   ranges; flags is not 0; hStream is the context's default stream; a location is invalid or does
 *   not exist.
 * - CUDA_ERROR_INVALID_VALUE, and the ranges before it are prefetched: a range is invalid.
 * - CUDA_ERROR_OUT_OF_MEMORY, and the ranges before it are prefetched: with this range, more would
 *   be moved to the host than its capacity. */
CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                         CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags,
                                         CUstream hStream);

/* Declares that the contents of `count` ranges of sizes[i] bytes from dptrs[i] are no longer
 * needed. Until a byte is written again, its value is undefined. Only pages that lie completely
 * inside a range are discarded. Advice and the last prefetch location stay. flags, hStream and
 * errors are as for cuMemPrefetchBatchAsync, which also has locations. */
CUresult CUDAAPI cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                        unsigned long long flags, CUstream hStream);

/* Discards and prefetches in one operation: the pages move to their locations without the contents
 * that are no longer needed. Arguments and errors are those of cuMemPrefetchBatchAsync. */
CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                   CUmemLocation* prefetchLocs,
                                                   size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                   unsigned long long flags, CUstream hStream);

#endif
