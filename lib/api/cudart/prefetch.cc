// The runtime API's functions that prefetch and discard managed memory.
#include "api/cudart/entry.h"
#include "api/entry.h"
#include "api/exports.h"

using namespace wherry::impl;

namespace {

cudaError_t prefetch(const void* pointer, std::size_t count, cudaMemLocation location,
                     unsigned flags, cudaStream_t stream, const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return cuMemPrefetchAsync_v2(address_of(pointer), count, to_driver(location), flags, stream);
  });
}

cudaError_t prefetch(const void* pointer, std::size_t count, int device, cudaStream_t stream,
                     const char* call = __builtin_FUNCTION()) {
  return with_context(
      call, [&] { return cuMemPrefetchAsync(address_of(pointer), count, device, stream); });
}

// Pointers and locations have the same layout in both APIs, so arrays of them can be passed on.
CUdeviceptr* addresses(void** pointers) {
  static_assert(sizeof(CUdeviceptr) == sizeof(void*));
  return reinterpret_cast<CUdeviceptr*>(pointers);
}
CUmemLocation* locations(cudaMemLocation* locations) {
  static_assert(sizeof(CUmemLocation) == sizeof(cudaMemLocation));
  return reinterpret_cast<CUmemLocation*>(locations);
}

cudaError_t prefetch_batch(void** pointers, std::size_t* sizes, std::size_t count,
                           cudaMemLocation* where, std::size_t* first_ranges,
                           std::size_t where_count, unsigned long long flags, cudaStream_t stream,
                           const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return cuMemPrefetchBatchAsync(addresses(pointers), sizes, count, locations(where),
                                   first_ranges, where_count, flags, stream);
  });
}

cudaError_t discard_batch(void** pointers, std::size_t* sizes, std::size_t count,
                          unsigned long long flags, cudaStream_t stream,
                          const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return cuMemDiscardBatchAsync(addresses(pointers), sizes, count, flags, stream);
  });
}

cudaError_t discard_and_prefetch_batch(void** pointers, std::size_t* sizes, std::size_t count,
                                       cudaMemLocation* where, std::size_t* first_ranges,
                                       std::size_t where_count, unsigned long long flags,
                                       cudaStream_t stream,
                                       const char* call = __builtin_FUNCTION()) {
  return with_context(call, [&] {
    return cuMemDiscardAndPrefetchBatchAsync(addresses(pointers), sizes, count, locations(where),
                                             first_ranges, where_count, flags, stream);
  });
}

}  // namespace

cudaError_t cudaMemPrefetchAsync(const void* devPtr, size_t count, cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream) {
  return prefetch(devPtr, count, location, flags, stream);
}
cudaError_t cudaMemPrefetchAsync_v2(const void* devPtr, size_t count, cudaMemLocation location,
                                    unsigned int flags, cudaStream_t stream) {
  return prefetch(devPtr, count, location, flags, stream);
}
cudaError_t cudaMemPrefetchAsync_v1(const void* devPtr, size_t count, int dstDevice,
                                    cudaStream_t stream) {
  return prefetch(devPtr, count, dstDevice, stream);
}

cudaError_t cudaMemPrefetchBatchAsync(void** dptrs, size_t* sizes, size_t count,
                                      cudaMemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                      size_t numPrefetchLocs, unsigned long long flags,
                                      cudaStream_t stream) {
  return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags,
                        stream);
}

cudaError_t cudaMemDiscardBatchAsync(void** dptrs, size_t* sizes, size_t count,
                                     unsigned long long flags, cudaStream_t stream) {
  return discard_batch(dptrs, sizes, count, flags, stream);
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** dptrs, size_t* sizes, size_t count,
                                                cudaMemLocation* prefetchLocs,
                                                size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                unsigned long long flags, cudaStream_t stream) {
  return discard_and_prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                    numPrefetchLocs, flags, stream);
}
