// What this process lets other processes open: devices' own memory (cuIpcGetMemHandle,
// cuMemPoolExportPointer), memory pools, and events. If memory is freed here while other processes
// have it open, its pages and addresses stay until the last of them has closed it or has ended,
// which Linux tells by the marks on the file's range (os/files/range_mark.h). Any thread.
#pragma once

#include <wherry/cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "memory/offer_board.h"
#include "objects/p2p_pages.h"
#include "runtime/runtime.h"
#include "streams/shared_event.h"

namespace wherry::impl {

class Offers {
 public:
  Offers(Runtime& runtime, P2PPages& p2p_pages) : runtime_(runtime), p2p_pages_(p2p_pages) {}

  // Returns the handle of the memory that contains the address; memory of a pool must begin there.
  // The handle stays the same as long as the memory lives. Returns CUDA_ERROR_INVALID_VALUE if no
  // memory of this kind is there. Throws std::system_error, std::bad_alloc.
  CUresult offer(std::uintptr_t address, MemoryKind kind, OfferHandle& handle) EXCLUDES(lock_);
  // Lets other processes open memory of the pool; the same handle until withdraw(). Throws
  // std::system_error, std::bad_alloc.
  CUresult offer(CUmemoryPool pool, int device, OfferHandle& handle) EXCLUDES(lock_);
  // Other processes can open no more memory of the pool.
  void withdraw(CUmemoryPool pool) EXCLUDES(lock_);
  // Lets other processes open the event. Requires: it lives until it is withdrawn.
  CUresult offer(const SharedEvent& event, OfferHandle& handle) EXCLUDES(lock_);
  void withdraw(const SharedEvent& event) EXCLUDES(lock_);
  // Other processes can no longer open this memory of a pool. Requires: the record is no longer in
  // MemoryRecords.
  void withdraw(const MemoryRecord& record) EXCLUDES(lock_);

  // Frees a device's own memory at once; or, if other processes have it open, when the last has
  // closed it. Requires: the record is no longer in MemoryRecords, and no work uses the memory any
  // more.
  void free(const MemoryRecord& record) EXCLUDES(lock_);
  // Frees memory that other processes had open and have closed. Returns whether there was any.
  // Cheap if there is none.
  bool free_returned() EXCLUDES(lock_);

 private:
  // Returns the handle of this offer; posts it on the board if that has not been done.
  CUresult offer(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id, const Offer& what,
                 OfferHandle& handle) REQUIRES(lock_);
  void take_down(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id) REQUIRES(lock_);
  bool is_open_elsewhere(const MemoryRecord& record) const {
    return runtime_.heap().is_open_elsewhere(record.base, record.bytes, record.device);
  }
  void free_now(const MemoryRecord& record);

  Runtime& runtime_;
  P2PPages& p2p_pages_;
  Mutex lock_{LockOrder::offers};
  std::unique_ptr<OfferBoard> board_ GUARDED_BY(lock_);            // made for the first offer
  std::map<std::uint64_t, OfferHandle> memory_ GUARDED_BY(lock_);  // by the record's id
  std::map<std::uint64_t, OfferHandle> pools_ GUARDED_BY(lock_);   // by the handle
  std::map<std::uint64_t, OfferHandle> events_ GUARDED_BY(lock_);  // by serial number
  std::vector<MemoryRecord> kept_ GUARDED_BY(lock_);               // freed here and open elsewhere
  std::atomic<bool> keeps_ = false;                                // kept_ is not empty
};

}  // namespace wherry::impl
