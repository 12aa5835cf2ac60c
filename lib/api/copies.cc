#include "api/copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/page.h"
#include "objects/failures/bad_arguments.h"
#include "objects/ranges.h"

namespace wherry::impl {
namespace {

// Waking a copier takes about as long as copying this many bytes.
constexpr std::uint64_t wake_bytes = 64 << 10;
// From this size on several copiers are faster than one thread.
constexpr std::uint64_t copiers_bytes_min = 1 << 20;

// A processor, and the access that it must have to the memory.
struct Accessor {
  Processor processor;
  Access access;
};

Accessor accessor_of(const End& end, const StreamHandle& stream, Access access) {
  const int own = stream.context->device.ordinal;
  return {Processor::device(end.device.value_or(own)), access};
}

const char* argument_of(const Accessor& accessor) {
  return accessor.access == Access::write ? "destination" : "source";
}

// Number of bytes from the first byte of the first row to the end of the last one. Returns false if
// the number overflows.
bool reach(const End& end, const Extent& extent, std::size_t& bytes) {
  std::size_t rows = 0;
  std::size_t layers = 0;
  return !__builtin_mul_overflow(extent.rows - 1, end.pitch, &rows) &&
         !__builtin_mul_overflow(extent.layers - 1, end.layer, &layers) &&
         !__builtin_add_overflow(rows, layers, &bytes) &&
         !__builtin_add_overflow(bytes, extent.width, &bytes);
}

// Returns whether all bytes lie in memory of this kind, which may be several adjacent allocations.
// Sets in `found` what holds for all of these.
bool look_at_pieces(Driver& driver, MemoryKind kind, AddressRange bytes,
                    PlannedCopy::Found& found) {
  found.is_known = found.is_device = true;
  for (std::uintptr_t at = bytes.start; at < bytes.end;) {
    const auto record = driver.memory().find(at);
    if (!record || record->kind != kind) return false;
    found.is_device = found.is_device && !record->is_mapped_host_memory();
    found.sync_memops = found.sync_memops || record->sync_memops;
    at = record->base + record->bytes;
  }
  return true;
}

// Finds memory in the annex. The calling thread may have no access to it, so it is copied from file
// to file.
CUresult find_in_annex(Driver& driver, MemoryKind kind, AddressRange bytes, Accessor accessor,
                       PlannedCopy::Found& found) {
  if (!look_at_pieces(driver, kind, bytes, found))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the range {:#x}+{} is not {} from its start to its end; copy what is", bytes.start,
                bytes.size(), name_of(kind));
  auto mappings = driver.runtime().annex().locate(bytes, accessor.processor, accessor.access);
  if (!mappings)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "{} may not {} all of the range {:#x}+{}; give it access with cuMemSetAccess",
                accessor.processor.is_host() ? "the host" : "the device",
                accessor.access == Access::write ? "write" : "read", bytes.start, bytes.size());
  if (accessor.processor.is_host()) found.is_device = false;
  found.side.memory = CopyRequest::Memory::files;
  found.side.mappings = std::make_shared<const std::vector<FileMapping>>(std::move(*mappings));
  return CUDA_SUCCESS;
}

CUresult find(Driver& driver, const End& end, const Extent& extent, Accessor accessor,
              PlannedCopy::Found& found) {
  std::size_t bytes = 0;
  std::uintptr_t past = 0;
  if (end.address == 0) return refuse_null(argument_of(accessor));
  if (!reach(end, extent, bytes) || __builtin_add_overflow(end.address, bytes, &past))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the {} at {:#x} reaches past the last address; check sizes and pitches",
                argument_of(accessor), end.address);
  Runtime& runtime = driver.runtime();
  found.side.pitch = end.pitch;
  found.side.layer = end.layer;
  found.side.start = end.address;
  // This lookup comes before that of the record: memory that is being allocated has no record yet,
  // and perhaps no pages. Memory that is freed meanwhile is not copied, because the copy checks the
  // allocation's id.
  auto allocation =
      runtime.heap().offset_of(end.address) ? runtime.heap().find(end.address) : std::nullopt;
  const auto record = runtime.heap().find_record(end.address);
  if (!record) {
    // An address without a record is never the program's if the library has placed something of its
    // own there.
    const bool is_ours = overlaps_own(runtime, {end.address, past});
    if (end.role != Role::device && !is_ours) return CUDA_SUCCESS;
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the {} {:#x} is in no live allocation; pass memory of cuMemAllocManaged or "
                "cuMemAlloc (was it freed?)",
                argument_of(accessor), end.address);
  }
  const bool is_mapped = record->kind == MemoryKind::mapped;
  // Like other memory of this process, imported memory may be copied in a stream of any device; its
  // own device has access to it.
  if (record->kind == MemoryKind::imported) accessor.processor = Processor::device(record->device);
  if (end.role == Role::host && is_mapped)
    accessor.processor = Processor::host();
  else if (end.role == Role::host && !record->is_for_host())
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the {} {:#x} must be memory of the host, and is {}; use the function for this "
                "direction, or cuMemcpy",
                argument_of(accessor), end.address, name_of(record->kind));
  if (!is_mapped && bytes > record->bytes - (end.address - record->start_of_range(end.address)))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the {} {:#x}+{} is longer than the rest of its allocation {:#x}+{}; copy less",
                argument_of(accessor), end.address, bytes, record->start_of_range(end.address),
                record->bytes);
  if (is_mapped || record->kind == MemoryKind::imported)
    return find_in_annex(driver, record->kind, {end.address, past}, accessor, found);
  found.is_known = true;
  found.sync_memops = record->sync_memops;
  switch (record->kind) {
    case MemoryKind::managed:
      found.is_device = found.is_managed = true;
      break;
    case MemoryKind::device:
    case MemoryKind::pooled:
      found.is_device = true;
      break;
    case MemoryKind::host:
    case MemoryKind::registered:
    case MemoryKind::mapped:
    case MemoryKind::imported:
      break;
  }
  found.side.start = record->host_address(end.address);
  if (!found.is_device) return CUDA_SUCCESS;
  // The memory may be a module's variable that find_record() has just made managed memory, so that
  // the lookup before it has not found it. Variables are never freed.
  if (!allocation) allocation = runtime.heap().find(end.address);
  if (!allocation)
    return fail(CUDA_ERROR_INVALID_VALUE, "the {} {:#x} was freed during the call; free it later",
                argument_of(accessor), end.address);
  found.side.allocation = allocation->id;
  found.side.start = *runtime.heap().offset_of(end.address);
  found.side.memory = found.is_managed ? CopyRequest::Memory::managed : CopyRequest::Memory::device;
  found.side.owner = Processor::device(record->device);
  return CUDA_SUCCESS;
}

CUresult to_result(OpStatus status) {
  switch (status) {
    case OpStatus::ok:
      return CUDA_SUCCESS;
    case OpStatus::bad_address:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "some of the source or destination is not mapped, or was freed during the call; "
                  "check addresses and sizes");
    case OpStatus::no_memory:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "there is no memory for pages of the destination; free some");
    default:
      return fail(CUDA_ERROR_UNKNOWN, "the copy has failed: {}; please report it",
                  to_string(status));
  }
}

// Returns the status for the context, and logs a failure, because no thread waits for the result.
WorkStatus to_work_status(OpStatus status) {
  if (status == OpStatus::ok) return WorkStatus::ok;
  log_error("an asynchronous copy or fill has failed: {}", to_string(status));
  return status == OpStatus::bad_address ? WorkStatus::illegal_address : WorkStatus::launch_failed;
}

CUresult run(Driver& driver, const StreamHandle& target, CopyRequest request, bool waits) {
  DeviceEngine& engine = target.context->device.engine;
  Runtime& runtime = driver.runtime();
  if (!waits) {
    const Operation later = [&runtime, request](Completion done) {
      runtime.copy_engine().submit(request,
                                   [done](OpStatus status) { done(to_work_status(status)); });
    };
    // A copy of at most wake_bytes takes less time than waking a copier, so it is done at once,
    // unless it concerns managed memory, where it may have to wait for other threads' transfers.
    const bool moves = request.to.memory == CopyRequest::Memory::managed ||
                       request.from.memory == CopyRequest::Memory::managed;
    if (moves || request.bytes() > wake_bytes)
      return refuse_status(engine.enqueue_operation(target.stream, later));
    return refuse_status(engine.run_inline_or_enqueue(
        target.stream, [&] { return to_work_status(runtime.copy_engine().copy(request)); }, later));
  }
  const bool in_host_memory = request.to.memory == CopyRequest::Memory::host &&
                              (request.pattern || request.from.memory == CopyRequest::Memory::host);
  if (in_host_memory || request.bytes() <= copiers_bytes_min) {
    OpStatus copied = OpStatus::ok;
    const WorkStatus status =
        engine.run_inline(target.stream, [&] { copied = runtime.copy_engine().copy(request); });
    return status == WorkStatus::ok ? to_result(copied) : refuse_status(status);
  }
  // The operation shares the result, because it may run longer than this call: a reset may drop the
  // stream's work while this thread waits.
  const auto copied = std::make_shared<std::atomic<OpStatus>>(OpStatus::incomplete);
  WorkStatus status = engine.enqueue_operation(
      target.stream, [&runtime, copied, request = std::move(request)](Completion done) {
        runtime.copy_engine().submit(request, [done, copied](OpStatus result) {
          *copied = result;
          done();
        });
      });
  if (status == WorkStatus::ok) status = engine.wait(target.stream);
  // If another thread has destroyed the context, it has waited for the context's work, so the copy
  // may have been done.
  if (status == WorkStatus::context_destroyed && *copied != OpStatus::incomplete)
    status = WorkStatus::ok;
  return status == WorkStatus::ok ? to_result(copied->load()) : refuse_status(status);
}

// Copies from pageable memory, which the program may change as soon as the call has returned. If
// earlier work of the stream is pending, the bytes are copied to staging memory now, and from there
// in the stream's order. If no staging memory is free, the call waits for the earlier work and then
// copies.
CUresult run_staged(Driver& driver, const StreamHandle& target, CopyRequest request) {
  Runtime& runtime = driver.runtime();
  // Without earlier work, copying takes no longer than staging. Work that another thread gives to
  // the stream after this check counts as earlier.
  if (target.context->device.engine.is_ready(target.stream))
    return run(driver, target, std::move(request), /*waits=*/true);
  request.staged = runtime.staging().take(request.bytes());
  if (!request.staged) return run(driver, target, std::move(request), /*waits=*/true);
  CopyRequest::Side packed;
  packed.start = reinterpret_cast<std::uintptr_t>(request.staged.get());
  packed.pitch = request.width;
  packed.layer = request.width * request.rows;
  CopyRequest taking = request;
  taking.to = packed;
  const OpStatus taken = runtime.copy_engine().copy(taking);
  if (taken != OpStatus::ok) return to_result(taken);
  request.from = packed;
  return run(driver, target, std::move(request), /*waits=*/false);
}

// Returns the lowest `size` bytes of the value, repeated.
std::shared_ptr<const std::vector<std::byte>> pattern_of(std::uint32_t value, unsigned size,
                                                         std::size_t bytes) {
  std::vector<std::byte> pattern(std::min(bytes, block_size));
  std::memcpy(pattern.data(), &value, size);
  for (std::size_t done = size; done < pattern.size(); done *= 2)
    std::memcpy(pattern.data() + done, pattern.data(), std::min(done, pattern.size() - done));
  return std::make_shared<const std::vector<std::byte>>(std::move(pattern));
}

}  // namespace

CUresult plan_copy(Driver& driver, const StreamHandle& target, const End& to, const End& from,
                   const Extent& extent, PlannedCopy& plan) {
  CUresult found = find(driver, to, extent, accessor_of(to, target, Access::write), plan.there);
  if (found == CUDA_SUCCESS)
    found = find(driver, from, extent, accessor_of(from, target, Access::read), plan.here);
  if (found != CUDA_SUCCESS) return found;
  plan.request = {.to = plan.there.side,
                  .from = plan.here.side,
                  .pattern = nullptr,
                  .width = extent.width,
                  .rows = extent.rows,
                  .layers = extent.layers,
                  .home = {}};
  if (to.role != Role::host) plan.request.home = Processor::device(target.context->device.ordinal);
  return CUDA_SUCCESS;
}

CUresult plan_fill(Driver& driver, const StreamHandle& target, const End& to, const Extent& extent,
                   std::uint32_t value, unsigned size, PlannedCopy& plan) {
  const bool uses_pitch = extent.rows > 1 || extent.layers > 1;
  if (to.address % size != 0 || (uses_pitch && to.pitch % size != 0))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the destination {:#x} and its pitch {} must be multiples of {}, the size of the "
                "value; align them",
                to.address, to.pitch, size);
  const CUresult found =
      find(driver, to, extent, accessor_of(to, target, Access::write), plan.there);
  if (found != CUDA_SUCCESS) return found;
  plan.request = {.to = plan.there.side,
                  .from = {},
                  .pattern = nullptr,
                  .width = extent.width,
                  .rows = extent.rows,
                  .layers = extent.layers,
                  .home = Processor::device(target.context->device.ordinal)};
  plan.request.pattern = pattern_of(value, size, plan.request.bytes());
  return CUDA_SUCCESS;
}

GraphWork copy_work(CopyRequest request) {
  return [request = std::move(request)](Driver& driver, const StreamHandle& stream) {
    return run(driver, stream, request, /*waits=*/false);
  };
}

CUresult find_target(Driver& driver, CUstream argument, Timing timing, WorkStream& target) {
  if (timing == Timing::asynchronous) {
    const CUresult found = find_work_stream(driver, argument, target);
    return found == CUDA_SUCCESS
               ? refuse_status(target.context->device.engine.status(*target.context->work))
               : found;
  }
  const CUresult safe = driver.captures().refuse_unsafe();
  const CUresult found = find_working_stream(driver, argument, target);
  return found == CUDA_SUCCESS ? safe : found;
}

CUresult copy(Driver& driver, CUstream stream, Timing timing, const End& to, const End& from,
              const Extent& extent) {
  WorkStream target;
  const CUresult ready = find_target(driver, stream, timing, target);
  if (ready != CUDA_SUCCESS || extent.is_empty()) return ready;
  PlannedCopy plan;
  const CUresult planned = plan_copy(driver, target, to, from, extent, plan);
  if (planned != CUDA_SUCCESS) return planned;
  // A captured copy accesses pageable memory when the graph runs, so nothing is staged.
  if (target.is_captured)
    return give(driver, target, CU_GRAPH_NODE_TYPE_MEMCPY, copy_work(std::move(plan.request)));
  const PlannedCopy::Found& there = plan.there;
  const PlannedCopy::Found& here = plan.here;
  const bool in_host_memory = !there.is_device && !here.is_device;
  const bool is_pageable = !there.is_known || !here.is_known;
  const bool in_device_memory = there.is_device && here.is_device;
  // Only a source is staged: bytes copied to pageable memory must have arrived when the call
  // returns.
  if (timing == Timing::asynchronous && there.is_device && !here.is_known)
    return run_staged(driver, target, std::move(plan.request));
  const bool waits = in_host_memory || is_pageable ||
                     (timing == Timing::synchronous &&
                      (!in_device_memory || there.sync_memops || here.sync_memops));
  return run(driver, target, std::move(plan.request), waits);
}

CUresult fill(Driver& driver, CUstream stream, Timing timing, const End& to, const Extent& extent,
              std::uint32_t value, unsigned size) {
  WorkStream target;
  const CUresult ready = find_target(driver, stream, timing, target);
  if (ready != CUDA_SUCCESS || extent.is_empty()) return ready;
  PlannedCopy plan;
  const CUresult planned = plan_fill(driver, target, to, extent, value, size, plan);
  if (planned != CUDA_SUCCESS) return planned;
  if (target.is_captured)
    return give(driver, target, CU_GRAPH_NODE_TYPE_MEMSET, copy_work(std::move(plan.request)));
  const PlannedCopy::Found& there = plan.there;
  const bool waits =
      timing == Timing::synchronous && (!there.is_device || there.is_managed || there.sync_memops);
  return run(driver, target, std::move(plan.request), waits);
}

}  // namespace wherry::impl
