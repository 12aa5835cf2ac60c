#include "objects/memory_pool.h"

#include <algorithm>
#include <cstring>

#include "objects/driver.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"

namespace wherry::impl {
namespace {

constexpr std::size_t slab_step = std::size_t{32} << 20;

template <typename Value>
CUresult give(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

template <typename Value>
Value value_of(const void* data) {
  Value value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// The attribute's index in MemoryPool::reuse_; nullopt if it is no reuse attribute.
std::optional<std::size_t> reuse_index(CUmemPool_attribute attribute) {
  if (attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
      attribute > CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    return std::nullopt;
  return attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
}

constexpr std::size_t event_dependencies = 0;
constexpr std::size_t internal_dependencies = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES -
                                              CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;

}  // namespace

MemoryPool::MemoryPool(Parts parts, CUmemoryPool handle, int device, unsigned audience,
                       Limits limits)
    : parts_(parts), handle_(handle), device_(device), audience_(audience), limits_(limits) {}

MemoryPool::~MemoryPool() {
  parts_.runtime.audiences().end(audience_);
}

CUresult MemoryPool::allocate(std::size_t bytes, const StreamHandle& stream, CUdeviceptr& address) {
  if (round_up(bytes, page_size) < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const LockGuard guard(lock_);
  if (retired_) return CUDA_ERROR_INVALID_VALUE;
  const auto base = find_free_range(bytes, stream);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  // Pages that were handed out before exist already: for them the call only checks that.
  if (!parts_.runtime.heap().create_device(*base, bytes, device_)) {
    space_.free(*base);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  try {
    remember(*base, bytes);
  } catch (...) {
    // Earlier work may still use the memory, but only work of this stream, or work that this stream
    // waits for.
    space_.free_in_order(*base, stream.stream->id());
    throw;
  }
  address = *base;
  return CUDA_SUCCESS;
}

std::optional<std::uintptr_t> MemoryPool::find_free_range(std::size_t bytes,
                                                          const StreamHandle& stream) {
  const std::uint64_t id = stream.stream->id();
  if (const auto base = space_.allocate_own(bytes, id)) return base;
  if (const auto base = take_followed(bytes, stream)) return base;
  if (const auto base = space_.allocate(bytes, id)) return base;
  look_at_frees();
  if (const auto base = space_.allocate(bytes, id)) return base;
  if (grow(bytes)) return space_.allocate(bytes, id);
  return take_from_others(bytes, stream);
}

bool MemoryPool::grow(std::size_t bytes) {
  const std::size_t left = limits_.most - space_.reserved().now;
  for (const std::size_t step : {slab_step, block_size}) {
    const std::size_t wanted = round_up(bytes, step);
    if (wanted < bytes || wanted > left) continue;
    const auto slab =
        parts_.runtime.heap().reserve_device(wanted, {Processor::device(device_), audience_});
    if (!slab) continue;
    space_.add({parts_.runtime.heap().address_of(*slab), wanted});
    return true;
  }
  return false;
}

const std::shared_ptr<Recording>& MemoryPool::recording_of(
    const StreamFrees& others, const MemoryPoolSpace::Leaving& leaving) {
  return std::ranges::find_if(others.frees,
                              [&](const Pending& free) { return free.number >= leaving.number; })
      ->recording;
}

std::optional<std::uintptr_t> MemoryPool::take_followed(std::size_t bytes,
                                                        const StreamHandle& stream) {
  if (reuse_[event_dependencies] == 0 || frees_.empty()) return std::nullopt;
  const auto order = stream.context->device.engine.order_of(*stream.stream);
  if (!order) return std::nullopt;
  const auto is_before = [&](const MemoryPoolSpace::Leaving& free) WHERRY_TSA(
                             no_thread_safety_analysis) {  // under lock_
    const auto others = frees_.find(free.stream);
    return others != frees_.end() && order->is_after(recording_of(others->second, free)->moment);
  };
  const auto leaving = space_.find_leaving(bytes, is_before);
  if (!leaving) return std::nullopt;
  space_.allocate_leaving(leaving->base, bytes);
  return leaving->base;
}

std::optional<std::uintptr_t> MemoryPool::take_from_others(std::size_t bytes,
                                                           const StreamHandle& stream) {
  if (reuse_[internal_dependencies] == 0) return std::nullopt;
  const auto leaving = space_.find_leaving(bytes);
  if (!leaving) return std::nullopt;
  const auto found = frees_.find(leaving->stream);
  if (found == frees_.end()) return std::nullopt;  // there is nothing to wait for
  const StreamFrees& others = found->second;
  // If the other context fails, its stream never reaches the free, and this stream would fail, too.
  if (others.context != stream.context) return std::nullopt;
  if (stream.context->device.engine.wait_for(stream.stream, recording_of(others, *leaving)) !=
      WorkStatus::ok)
    return std::nullopt;
  space_.allocate_leaving(leaving->base, bytes);
  return leaving->base;
}

void MemoryPool::remember(std::uintptr_t base, std::size_t bytes) {
  // The API reports as mapped the slab's steps around the memory; the last step ends with the slab.
  const MemoryPoolSpace::Slab slab = space_.slab_of(base);
  const std::size_t offset = base - slab.base;
  const std::size_t first = round_down(offset, slab_step);
  const std::size_t end = std::min(round_up(offset + bytes, slab_step), slab.bytes);
  MemoryRecord record;
  record.base = record.device_base = base;
  record.bytes = bytes;
  record.pool = handle_;
  record.mapping_lead_pages = static_cast<std::uint16_t>((offset - first) / page_size);
  record.mapping_pages = (end - first) / page_size;
  record.kind = MemoryKind::pooled;
  record.device = static_cast<std::uint8_t>(device_);
  parts_.records.insert(record);
}

WorkStatus MemoryPool::free(const MemoryRecord& record, const StreamHandle& stream) {
  const LockGuard guard(lock_);
  auto recording = std::make_shared<Recording>();
  const WorkStatus status = stream.context->device.engine.record(stream.stream, recording);
  if (status != WorkStatus::ok) return status;
  parts_.runtime.status().forget_names(record.base, record.bytes);
  StreamFrees& frees = frees_[stream.stream->id()];
  frees.context = stream.context;
  frees.frees.push_back(
      {space_.free_in_order(record.base, stream.stream->id()), std::move(recording)});
  return status;
}

void MemoryPool::free_now(const MemoryRecord& record) {
  const LockGuard guard(lock_);
  parts_.runtime.status().forget_names(record.base, record.bytes);
  space_.free(record.base);
}

void MemoryPool::look_at_frees() {
  for (auto entry = frees_.begin(); entry != frees_.end();) {
    const Context& context = *entry->second.context;
    auto& frees = entry->second.frees;
    std::uint64_t reached = 0;
    DeviceEngine& engine = context.device.engine;
    // A free that was discarded with its context's work counts as reached, once no kernel of the
    // context runs any more.
    const auto is_over = [&](const Recording& recording) {
      const auto outcome = engine.query(recording);
      return outcome && (outcome->status == WorkStatus::ok || engine.is_idle(*context.work));
    };
    while (!frees.empty() && is_over(*frees.front().recording)) {
      reached = frees.front().number;
      frees.pop_front();
    }
    if (reached != 0) space_.reached(entry->first, reached);
    entry = frees.empty() ? frees_.erase(entry) : std::next(entry);
  }
}

MemoryPool::Trimmed MemoryPool::trim_locked(std::size_t keep) {
  look_at_frees();
  Trimmed trimmed;
  while (space_.reserved().now > keep) {
    const auto slab =
        space_.take_free_slab(space_.reserved().now - keep, [&](const MemoryPoolSpace::Slab& free) {
          // Another process that still has the slab open would see the next allocation's data.
          const bool is_open = limits_.for_processes && parts_.runtime.heap().is_open_elsewhere(
                                                            free.base, free.bytes, device_);
          trimmed.others_have_more = trimmed.others_have_more || is_open;
          return !is_open;
        });
    if (!slab) break;
    parts_.runtime.heap().free(slab->base);
    trimmed.some = true;
  }
  return trimmed;
}

bool MemoryPool::trim(std::size_t keep) {
  const LockGuard guard(lock_);
  return trim_locked(keep).some;
}

bool MemoryPool::trim_to_threshold() {
  const LockGuard guard(lock_);
  const Trimmed trimmed = trim_locked(retired_ ? 0 : threshold_);
  return frees_.empty() && !trimmed.others_have_more;
}

void MemoryPool::retire() {
  const LockGuard guard(lock_);
  retired_ = true;
}

bool MemoryPool::is_retired() {
  const LockGuard guard(lock_);
  return retired_;
}

bool MemoryPool::is_over() {
  const LockGuard guard(lock_);
  return retired_ && space_.reserved().now == 0;
}

CUresult MemoryPool::set_attribute(CUmemPool_attribute attribute, const void* value) {
  const LockGuard guard(lock_);
  if (const auto reuse = reuse_index(attribute)) {
    reuse_[*reuse] = value_of<int>(value) != 0 ? 1 : 0;
    return CUDA_SUCCESS;
  }
  const auto number = [&] { return value_of<cuuint64_t>(value); };
  const auto reset = [&](MemoryPoolSpace::Amount& amount) {
    if (number() != 0)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "value is {}, and the highest amount can only be reset; pass 0", number());
    amount.high = amount.now;
    return CUDA_SUCCESS;
  };
  look_at_frees();
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = number();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return reset(space_.reserved());
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return reset(space_.used());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "attr {} is the present amount, which cannot be set; set that with _HIGH to 0",
                  static_cast<int>(attribute));
    default:
      return refuse_value("attr", static_cast<int>(attribute), "CUmemPool_attribute");
  }
}

CUresult MemoryPool::get_attribute(CUmemPool_attribute attribute, void* value) {
  const LockGuard guard(lock_);
  if (const auto reuse = reuse_index(attribute)) return give(value, reuse_[*reuse]);
  look_at_frees();
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return give<cuuint64_t>(value, threshold_);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return give<cuuint64_t>(value, space_.reserved().now);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return give<cuuint64_t>(value, space_.reserved().high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return give<cuuint64_t>(value, space_.used().now);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return give<cuuint64_t>(value, space_.used().high);
    default:
      return refuse_value("attr", static_cast<int>(attribute), "CUmemPool_attribute");
  }
}

bool MemoryPool::is_accessible(int device) {
  const LockGuard guard(lock_);
  return device == device_ || (others_ & Processor::device(device).bit()) != 0;
}

void MemoryPool::set_access(int device, bool accessible) {
  if (device == device_) return;
  const LockGuard guard(lock_);
  const ProcessorMask bit = Processor::device(device).bit();
  if (accessible) {
    others_ |= bit;
    parts_.runtime.audiences().admit(audience_, device);
  } else if ((others_ & bit) != 0) {
    others_ &= ~bit;
    parts_.runtime.audiences().exclude(audience_, device);
  }
}

}  // namespace wherry::impl
