// A memory pool of the API (cuMemPoolCreate): memory of one device, allocated from the heap in
// large slabs and handed out in the order of streams. Any thread; no call waits for work.
#pragma once

#include <wherry/cuda.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "objects/device.h"
#include "pages/memory_pool_space.h"
#include "pages/memory_records.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class MemoryPool {
 public:
  struct Parts {
    Runtime& runtime;
    MemoryRecords& records;
  };

  struct Limits {
    std::size_t most = 0;        // bytes that it may reserve
    bool for_processes = false;  // other processes may open its memory
  };

  MemoryPool(Parts parts, CUmemoryPool handle, int device, unsigned audience, Limits limits);
  // Requires: the pool is empty.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  CUmemoryPool handle() const { return handle_; }
  int device() const { return device_; }
  std::size_t most_bytes() const { return limits_.most; }
  bool is_for_processes() const { return limits_.for_processes; }

  // Does what cuMemAllocFromPoolAsync does. Throws std::bad_alloc, std::system_error.
  CUresult allocate(std::size_t bytes, const StreamHandle& stream, CUdeviceptr& address)
      EXCLUDES(lock_);
  // Does what cuMemFreeAsync does. Frees nothing unless the result is ok. Requires: the record is
  // no longer in MemoryRecords.
  WorkStatus free(const MemoryRecord& record, const StreamHandle& stream) EXCLUDES(lock_);
  // Requires: the record is no longer in MemoryRecords, and no work uses the memory any more.
  void free_now(const MemoryRecord& record) EXCLUDES(lock_);

  // Gives back slabs that are free as a whole, as long as `keep` bytes stay reserved. Returns
  // whether it gave any.
  bool trim(std::size_t keep) EXCLUDES(lock_);
  // Gives back what exceeds the release threshold; of a retired pool, all that is free. Returns
  // false if there may be more later: streams have not reached some frees, or other processes have
  // memory open.
  bool trim_to_threshold() EXCLUDES(lock_);
  // The program has destroyed the pool: it keeps only what is allocated, and allocates no more.
  void retire() EXCLUDES(lock_);
  bool is_retired() EXCLUDES(lock_);
  // Whether the pool is retired and has given back all memory.
  bool is_over() EXCLUDES(lock_);

  CUresult set_attribute(CUmemPool_attribute attribute, const void* value) EXCLUDES(lock_);
  CUresult get_attribute(CUmemPool_attribute attribute, void* value) EXCLUDES(lock_);

  bool is_accessible(int device) EXCLUDES(lock_);
  void set_access(int device, bool accessible) EXCLUDES(lock_);

 private:
  // A free that its stream may not have reached.
  struct Pending {
    std::uint64_t number = 0;
    std::shared_ptr<Recording> recording;
  };
  struct StreamFrees {
    std::shared_ptr<Context> context;
    std::deque<Pending> frees;  // in the order of the stream
  };

  std::optional<std::uintptr_t> find_free_range(std::size_t bytes, const StreamHandle& stream)
      REQUIRES(lock_);
  bool grow(std::size_t bytes) REQUIRES(lock_);
  // The recording that the stream reaches at the free `leaving`. Requires: it has not reached it
  // yet.
  static const std::shared_ptr<Recording>& recording_of(const StreamFrees& others,
                                                        const MemoryPoolSpace::Leaving& leaving);
  // Allocates memory that another stream is about to free, if `stream` comes after that free
  // because the program had it wait for an event.
  std::optional<std::uintptr_t> take_followed(std::size_t bytes, const StreamHandle& stream)
      REQUIRES(lock_);
  // Allocates memory that another stream of the same context is about to free; makes `stream` wait
  // for the free.
  std::optional<std::uintptr_t> take_from_others(std::size_t bytes, const StreamHandle& stream)
      REQUIRES(lock_);
  // Enters the allocation in the table of what the API knows of addresses.
  void remember(std::uintptr_t base, std::size_t bytes) REQUIRES(lock_);
  // Notes which frees the streams have reached.
  void look_at_frees() REQUIRES(lock_);
  struct Trimmed {
    bool some = false;
    bool others_have_more = false;  // slabs would be given back, but other processes use them
  };
  Trimmed trim_locked(std::size_t keep) REQUIRES(lock_);

  const Parts parts_;
  const CUmemoryPool handle_;
  const int device_;
  const unsigned audience_;
  const Limits limits_;

  Mutex lock_{LockOrder::memory_pool};
  MemoryPoolSpace space_ GUARDED_BY(lock_);
  std::map<std::uint64_t, StreamFrees> frees_ GUARDED_BY(lock_);  // by stream id; none is empty
  std::size_t threshold_ GUARDED_BY(lock_) = 0;
  std::array<int, 3> reuse_ GUARDED_BY(lock_) = {1, 1, 1};  // by attribute
  ProcessorMask others_ GUARDED_BY(lock_) = 0;  // devices that have access beside its own
  bool retired_ GUARDED_BY(lock_) = false;
};

}  // namespace wherry::impl
