#include "objects/memory_pools.h"

#include <limits>

namespace wherry::impl {

std::shared_ptr<MemoryPool> MemoryPools::find(CUmemoryPool handle) const {
  const auto pool = table_.find(handle);
  return pool && !pool->is_retired() ? pool : nullptr;
}

std::shared_ptr<MemoryPool> MemoryPools::of(const MemoryRecord& record) const {
  return table_.find(reinterpret_cast<CUmemoryPool>(const_cast<void*>(record.pool)));
}

std::shared_ptr<MemoryPool> MemoryPools::create(int device, MemoryPool::Limits limits) {
  const auto audience = parts_.runtime.audiences().begin(device);
  if (!audience) return nullptr;
  const CUmemoryPool handle = table_.reserve();
  const auto pool = std::make_shared<MemoryPool>(parts_, handle, device, *audience, limits);
  table_.assign(handle, pool);
  return pool;
}

bool MemoryPools::destroy(CUmemoryPool handle) {
  const auto pool = find(handle);
  if (!pool) return false;
  {
    const LockGuard guard(lock_);
    OfDevice& device = devices_[static_cast<std::size_t>(pool->device())];
    if (device.initial == pool) return false;
    if (device.current == pool) device.current = nullptr;
  }
  pool->retire();
  if (!pool->trim_to_threshold()) note_excess();
  drop_if_over(*pool);
  return true;
}

void MemoryPools::drop_if_over(MemoryPool& pool) {
  if (pool.is_over()) table_.take(pool.handle());
}

std::shared_ptr<MemoryPool> MemoryPools::default_locked(int device) {
  auto& initial = devices_[static_cast<std::size_t>(device)].initial;
  if (!initial) initial = create(device, {std::numeric_limits<std::size_t>::max()});
  return initial;
}

std::shared_ptr<MemoryPool> MemoryPools::default_of(int device) {
  const LockGuard guard(lock_);
  return default_locked(device);
}

std::shared_ptr<MemoryPool> MemoryPools::current_of(int device) {
  const LockGuard guard(lock_);
  const auto& current = devices_[static_cast<std::size_t>(device)].current;
  return current ? current : default_locked(device);
}

void MemoryPools::set_current(const std::shared_ptr<MemoryPool>& pool) {
  const LockGuard guard(lock_);
  // Another thread may have destroyed the pool since it was looked up.
  if (!pool->is_retired()) devices_[static_cast<std::size_t>(pool->device())].current = pool;
}

void MemoryPools::free(const MemoryRecord& record) {
  of(record)->free_now(record);
  note_excess();
}

bool MemoryPools::free_in_order(const MemoryRecord& record, const StreamHandle& stream) {
  const bool is_free = of(record)->free(record, stream) == WorkStatus::ok;
  note_excess();
  return is_free;
}

void MemoryPools::give_back_excess() {
  if (!excess_.exchange(false)) return;
  for (const auto& pool : table_.all()) {
    if (!pool->trim_to_threshold()) note_excess();
    drop_if_over(*pool);
  }
}

bool MemoryPools::give_back_all(int device) {
  bool gave = false;
  for (const auto& pool : table_.all()) {
    if (pool->device() != device || !pool->trim(0)) continue;
    gave = true;
    drop_if_over(*pool);
  }
  return gave;
}

}  // namespace wherry::impl
