// The C functions that prefetch managed memory and the program's other memory, and discard managed
// memory: they check arguments, record the requested location of the pages, and put the work into
// the stream.
#include <cstddef>
#include <utility>
#include <vector>

#include "api/entry.h"
#include "migration/prefetch_request.h"
#include "objects/failures/bad_arguments.h"
#include "objects/ranges.h"

using namespace wherry::impl;

namespace {

using PrefetchKind = PrefetchRequest::Kind;

// ---- destinations

// Finds the destination that the old signature of cuMemPrefetchAsync passes as a number.
CUresult find_destination(const Runtime& runtime, CUdevice device, Location& to) {
  if (device != CU_DEVICE_CPU && !is_device(runtime, device))
    return refuse_device(runtime, device, /*or_host=*/true);
  to = device == CU_DEVICE_CPU ? Location::host() : Location::device(device);
  return CUDA_SUCCESS;
}

// Finds the destination that the new signature passes as a CUmemLocation. Unlike in advice and in
// batches, a device that does not exist has an error code of its own; a node has not.
CUresult find_destination(const Runtime& runtime, CUmemLocation named, Location& to) {
  const auto location = to_location(named);
  if (!location) return refuse_location(runtime, named, CUDA_ERROR_INVALID_VALUE);
  to = *location;
  if (exists(runtime, to)) return CUDA_SUCCESS;
  return refuse_location(
      runtime, named,
      to.kind == Location::Kind::device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
}

bool is_concurrent(const Runtime& runtime, Location to) {
  return to.kind != Location::Kind::device || runtime.device_config(to.id).concurrent;
}

// The destinations of a batch: locations[k] applies to the ranges from first_ranges[k] on.
struct Destinations {
  const CUmemLocation* locations = nullptr;
  const std::size_t* first_ranges = nullptr;
  std::size_t count = 0;
};

// Checks that every destination is valid, even if no range goes there.
CUresult check_destinations(const Runtime& runtime, const Destinations& where, std::size_t ranges) {
  if (where.locations == nullptr) return refuse_null("prefetchLocs");
  if (where.first_ranges == nullptr) return refuse_null("prefetchLocIdxs");
  if (where.count == 0 || where.count > ranges)
    return fail(CUDA_ERROR_INVALID_VALUE, "numPrefetchLocs is {} for {} ranges; pass 1 to {}",
                where.count, ranges, ranges);
  if (where.first_ranges[0] != 0)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "prefetchLocIdxs[0] is {}; the first location is that of "
                "range 0",
                where.first_ranges[0]);
  for (std::size_t i = 0; i < where.count; ++i) {
    const auto location = to_location(where.locations[i]);
    if (!location || !exists(runtime, *location))
      return refuse_location(runtime, where.locations[i], CUDA_ERROR_INVALID_VALUE);
    if (where.first_ranges[i] >= ranges)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "prefetchLocIdxs[{}] is {}, and there are {} ranges; pass a lower index", i,
                  where.first_ranges[i], ranges);
    if (!is_concurrent(runtime, *location)) return refuse_exclusive(location->id);
  }
  return CUDA_SUCCESS;
}

// ---- ranges

bool is_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  return count != 0 && is_managed(runtime, first, first + count);
}

// The work that one call asks for: in managed memory, and in the program's other memory.
struct Requests {
  PrefetchRequest managed;
  std::vector<SystemPrefetch> system = {};
};

// Records the destination of a range that the library did not allocate, and adds the range to the
// requests. Returns CUDA_ERROR_INVALID_VALUE if the program has no such memory, and
// CUDA_ERROR_INVALID_DEVICE if the destination cannot access it.
CUresult add_system(Runtime& runtime, CUdeviceptr first, std::size_t count, Location said,
                    Requests& requests) {
  const auto range = system_range(runtime, first, count);
  if (!range) return refuse_range(runtime, first, count);
  if (!accesses_pageable(runtime, said)) return refuse_pageable(said.id);
  auto prefetch = runtime.system_memory().note_prefetch(*range, said, settled(runtime, said));
  if (!prefetch) return refuse_range(runtime, first, count);
  requests.system.push_back(std::move(*prefetch));
  return CUDA_SUCCESS;
}

// Records the destination of the range, if it has one, and adds the range to the request. The host
// has space for `host_left` more bytes. Returns CUDA_ERROR_OUT_OF_MEMORY if the range is larger,
// and CUDA_ERROR_INVALID_VALUE if another thread has freed it meanwhile.
CUresult add_managed(Runtime& runtime, CUdeviceptr first, std::size_t count, Location said,
                     PrefetchRequest& request, std::size_t& host_left) {
  const PageSpan pages = pages_touched(runtime, first, count);
  if (pages.empty()) return CUDA_SUCCESS;
  if (!said.is_none()) {
    const bool to_host = said.processor().is_host();
    if (to_host && pages.bytes() > host_left)
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "the range {:#x}+{} does not fit into the host's pool, where {} bytes are left "
                  "for this call; prefetch less, or {}",
                  first, count, host_left, more_for_host(runtime.topology()));
    if (to_host) host_left -= pages.bytes();
    if (!runtime.advice().note_prefetch(pages, said)) return refuse_range(runtime, first, count);
  }
  request.ranges.push_back({pages, pages_covered(runtime, first, count), settled(runtime, said)});
  return CUDA_SUCCESS;
}

// Adds a range of either kind of memory. Only managed memory can be discarded.
CUresult add(Runtime& runtime, CUdeviceptr first, std::size_t count, Location said,
             Requests& requests, std::size_t& host_left) {
  if (is_range(runtime, first, count))
    return add_managed(runtime, first, count, said, requests.managed, host_left);
  return requests.managed.kind == PrefetchKind::prefetch
             ? add_system(runtime, first, count, said, requests)
             : refuse_range(runtime, first, count);
}

// ---- streams

bool is_concurrent(const Runtime& runtime, const StreamHandle& target) {
  return runtime.device_config(target.context->device.ordinal).concurrent;
}

CUresult enqueue(Runtime& runtime, const StreamHandle& target, PrefetchRequest request) {
  if (request.ranges.empty()) return CUDA_SUCCESS;
  DeviceEngine& engine = target.context->device.engine;
  // No work is queued before the prefetch, and all pages are where it would bring them.
  if (engine.is_idle(*target.context->work) && runtime.prefetcher().is_done(request))
    return CUDA_SUCCESS;
  request.epoch = engine.prefetch_epoch(target.stream);
  return refuse_status(engine.enqueue_operation(
      target.stream, [&runtime, request = std::move(request)](Completion done) {
        runtime.prefetcher().submit(request, std::move(done));
      }));
}

CUresult enqueue(Runtime& runtime, const StreamHandle& target,
                 std::vector<SystemPrefetch> prefetches) {
  if (prefetches.empty()) return CUDA_SUCCESS;
  return refuse_status(target.context->device.engine.enqueue_operation(
      target.stream, [&runtime, prefetches = std::move(prefetches)](Completion done) {
        runtime.system_memory().prefetcher().submit(prefetches, std::move(done));
      }));
}

// Gives both parts of the work to the stream, one after the other.
CUresult enqueue(Runtime& runtime, const StreamHandle& target, Requests requests) {
  const CUresult enqueued = enqueue(runtime, target, std::move(requests.managed));
  if (enqueued != CUDA_SUCCESS) return enqueued;
  return enqueue(runtime, target, std::move(requests.system));
}

// Records the destination, and gives the prefetch to the stream.
CUresult prefetch(Runtime& runtime, const StreamHandle& target, CUdeviceptr first,
                  std::size_t count, Location to) {
  Requests requests;
  std::size_t host_left = runtime.budget().capacity_bytes(Processor::host());
  const CUresult added = add(runtime, first, count, to, requests, host_left);
  if (added != CUDA_SUCCESS) return added;
  return enqueue(runtime, target, std::move(requests));
}

template <typename Place>
CUresult prefetch(CUdeviceptr first, std::size_t count, Place place, unsigned flags,
                  CUstream stream, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) -> CUresult {
    WorkStream target;
    CUresult ready = find_work_stream(driver, stream, target);
    if (ready == CUDA_SUCCESS)
      ready = refuse_status(target.context->device.engine.status(*target.context->work));
    if (ready != CUDA_SUCCESS) return ready;
    Runtime& runtime = driver.runtime();
    if (flags != 0) return refuse_flags(flags);
    if (!is_range(runtime, first, count) && !system_range(runtime, first, count))
      return refuse_range(runtime, first, count);
    Location to;
    const CUresult found = find_destination(runtime, place, to);
    if (found != CUDA_SUCCESS) return found;
    if (!is_concurrent(runtime, to)) return refuse_exclusive(to.id);
    if (!is_concurrent(runtime, target)) return refuse_exclusive(target.context->device.ordinal);
    // CUDA has no type of node for prefetches. They count as copies, which also move memory.
    return give(driver, target, CU_GRAPH_NODE_TYPE_MEMCPY,
                [&runtime, first, count, to](Driver&, const StreamHandle& where) {
                  return prefetch(runtime, where, first, count, to);
                });
  });
}

// An invalid range ends the batch with an error, but the ranges before it are carried out, as
// NVIDIA's driver does it.
CUresult run_batch(PrefetchKind kind, const CUdeviceptr* firsts, const std::size_t* sizes,
                   std::size_t count, const Destinations& where, unsigned long long flags,
                   CUstream stream, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) -> CUresult {
    // The legacy default stream, which synchronizes with the other streams, takes no batches.
    if (stream == nullptr || stream == CU_STREAM_LEGACY)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "hStream is the legacy default stream, which takes no batches; pass a stream of "
                  "cuStreamCreate, or CU_STREAM_PER_THREAD");
    StreamHandle target;
    const CUresult ready = find_working_stream(driver, stream, target);
    if (ready != CUDA_SUCCESS) return ready;
    Runtime& runtime = driver.runtime();
    if (firsts == nullptr) return refuse_null("dptrs");
    if (sizes == nullptr) return refuse_null("sizes");
    if (count == 0) return fail(CUDA_ERROR_INVALID_VALUE, "count is 0; pass at least 1 range");
    if (flags != 0) return refuse_flags(flags);
    if (kind != PrefetchKind::discard) {
      const CUresult checked = check_destinations(runtime, where, count);
      if (checked != CUDA_SUCCESS) return checked;
    }
    if (!is_concurrent(runtime, target)) return refuse_exclusive(target.context->device.ordinal);

    Requests requests;
    requests.managed.kind = kind;
    CUresult result = CUDA_SUCCESS;
    std::size_t current = 0;
    std::size_t host_left = runtime.budget().capacity_bytes(Processor::host());
    for (std::size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
      // Destinations take effect in the order of the list: one whose first range has passed before
      // its turn is never used.
      const std::size_t next = current + 1;
      if (i != 0 && next < where.count && where.first_ranges[next] == i) current = next;
      const Location to =
          kind == PrefetchKind::discard ? Location{} : *to_location(where.locations[current]);
      result = add(runtime, firsts[i], sizes[i], to, requests, host_left);
    }
    const CUresult enqueued = enqueue(runtime, target, std::move(requests));
    return result != CUDA_SUCCESS ? result : enqueued;
  });
}

}  // namespace

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                            CUstream hStream) {
  return prefetch(devPtr, count, dstDevice, 0, hStream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream) {
  return prefetch(devPtr, count, location, flags, hStream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                 CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                 size_t numPrefetchLocs, unsigned long long flags,
                                 CUstream hStream) {
  return run_batch(PrefetchKind::prefetch, dptrs, sizes, count,
                   {prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                unsigned long long flags, CUstream hStream) {
  return run_batch(PrefetchKind::discard, dptrs, sizes, count, {}, flags, hStream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                           CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                           size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
  return run_batch(PrefetchKind::discard_and_prefetch, dptrs, sizes, count,
                   {prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags, hStream);
}
