// All memory pools of the API, by handle, and which one each device allocates from by default. Any
// thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "objects/handle_table.h"
#include "objects/memory_pool.h"

namespace wherry::impl {

class MemoryPools {
 public:
  explicit MemoryPools(MemoryPool::Parts parts) : parts_(parts) {}

  // Returns null if the handle is invalid or the pool was destroyed.
  std::shared_ptr<MemoryPool> find(CUmemoryPool handle) const;
  // The pool of a record, even if the program has destroyed it; null if it no longer exists.
  std::shared_ptr<MemoryPool> of(const MemoryRecord& record) const;
  // Returns null if no more pools can exist.
  std::shared_ptr<MemoryPool> create(int device, MemoryPool::Limits limits);
  // Returns false if the handle is invalid, or the pool is a device's default one.
  bool destroy(CUmemoryPool handle) EXCLUDES(lock_);

  // Return null if the pool does not exist yet and no more can exist.
  std::shared_ptr<MemoryPool> default_of(int device) EXCLUDES(lock_);
  std::shared_ptr<MemoryPool> current_of(int device) EXCLUDES(lock_);
  void set_current(const std::shared_ptr<MemoryPool>& pool) EXCLUDES(lock_);

  // Does what cuMemFree does. Requires: the record is no longer in MemoryRecords, and no work uses
  // the memory.
  void free(const MemoryRecord& record);
  // Does what cuMemFreeAsync does. Requires: the record is no longer in MemoryRecords. Returns
  // false, and frees nothing, if the stream's context has failed.
  bool free_in_order(const MemoryRecord& record, const StreamHandle& stream);
  // Notes that there may be memory to give back: some was or will be freed, or a pool may keep
  // less.
  void note_excess() { excess_.store(true); }
  // Called after a thread has waited for work: gives back what pools have beyond what they may
  // keep. Cheap if note_excess() was not called.
  void give_back_excess();
  // Gives back all that the device's pools do not need at the moment. Returns whether there was
  // any.
  bool give_back_all(int device);

 private:
  struct OfDevice {
    std::shared_ptr<MemoryPool> initial;  // made at its first use
    std::shared_ptr<MemoryPool> current;  // null means the initial one
  };

  std::shared_ptr<MemoryPool> default_locked(int device) REQUIRES(lock_);
  // Forgets the pool if it was destroyed and nothing is left of it.
  void drop_if_over(MemoryPool& pool);

  const MemoryPool::Parts parts_;
  // Also holds pools that were destroyed while memory of them was allocated.
  HandleTable<CUmemoryPool, MemoryPool> table_{12};
  Mutex lock_{LockOrder::pools};
  std::array<OfDevice, max_devices> devices_ GUARDED_BY(lock_);
  std::atomic<bool> excess_ = false;
};

}  // namespace wherry::impl
