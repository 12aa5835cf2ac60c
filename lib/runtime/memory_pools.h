// All pools of the API, by handle, and which one each device takes by default. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "runtime/handle_table.h"
#include "runtime/memory_pool.h"

namespace wherry::impl {

class MemoryPools {
 public:
  explicit MemoryPools(MemoryPool::Parts parts) : parts_(parts) {}

  // Null where the handle is none, or not any more.
  std::shared_ptr<MemoryPool> find(CUmemoryPool handle) const;
  // The pool of a record, also when its handle is none any more; null when it is over.
  std::shared_ptr<MemoryPool> of(const MemoryRecord& record) const;
  // Null: there are as many as can be.
  std::shared_ptr<MemoryPool> create(int device, MemoryPool::Limits limits);
  // False: it is no pool that can be destroyed.
  bool destroy(CUmemoryPool handle) EXCLUDES(lock_);

  // Null: as create().
  std::shared_ptr<MemoryPool> default_of(int device) EXCLUDES(lock_);
  std::shared_ptr<MemoryPool> current_of(int device) EXCLUDES(lock_);
  void set_current(const std::shared_ptr<MemoryPool>& pool) EXCLUDES(lock_);

  // cuMemFree: the record is taken out, and nobody uses its memory any more.
  void free(const MemoryRecord& record);
  // cuMemFreeAsync: the record is taken out. False: the stream's context has failed, and nothing is
  // freed.
  bool free_in_order(const MemoryRecord& record, const StreamHandle& stream);
  // Something is or will be free, or less may be kept: there may be something to give back.
  void note_excess() { excess_.store(true); }
  // Somebody has waited for work: gives back what pools have beyond what they may keep. Costs next
  // to nothing without.
  void give_back_excess();
  // Gives back all that the device's pools do not need at the moment. True: there was something.
  bool give_back_all(int device);

 private:
  struct OfDevice {
    std::shared_ptr<MemoryPool> initial;  // made when first asked for
    std::shared_ptr<MemoryPool> current;  // null: the initial one
  };

  std::shared_ptr<MemoryPool> default_locked(int device) REQUIRES(lock_);
  // Forgets the pool if that is all there is to do for it.
  void drop_if_over(MemoryPool& pool);

  const MemoryPool::Parts parts_;
  HandleTable<CUmemoryPool, MemoryPool> table_{
      12};  // also pools that were destroyed and are not over
  Mutex lock_{LockOrder::pools};
  std::array<OfDevice, max_devices> devices_ GUARDED_BY(lock_);
  std::atomic<bool> excess_ = false;
};

}  // namespace wherry::impl
