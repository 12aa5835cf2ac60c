// What this process lets others open: devices' own memory (cuIpcGetMemHandle,
// cuMemPoolExportPointer), the pools that it may be of, and events. Memory that is freed here while
// others have it open stays, pages and addresses, until the last of them has closed it or has
// ended, which the kernel tells. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "memory/offer_board.h"
#include "runtime/held_pages.h"
#include "runtime/runtime.h"
#include "streams/shared_event.h"

namespace wherry::impl {

class Offers {
 public:
  Offers(Runtime& runtime, HeldPages& held_pages) : runtime_(runtime), held_pages_(held_pages) {}

  // The handle of what the address lies in, which is of this kind; of memory of a pool, where it
  // begins. The same one as long as the memory lives. CUDA_ERROR_INVALID_VALUE: there is no such
  // memory. Throws std::system_error, std::bad_alloc.
  CUresult offer(std::uintptr_t address, MemoryKind kind, OfferHandle& handle) EXCLUDES(lock_);
  // Lets others open memory of the pool; the same handle until withdraw(). Throws as above.
  CUresult offer(CUmemoryPool pool, int device, OfferHandle& handle) EXCLUDES(lock_);
  // Nobody opens any more of it.
  void withdraw(CUmemoryPool pool) EXCLUDES(lock_);
  // The event, which lives until it is withdrawn.
  CUresult offer(const SharedEvent& event, OfferHandle& handle) EXCLUDES(lock_);
  void withdraw(const SharedEvent& event) EXCLUDES(lock_);
  // The record's memory, which is of a pool, is taken out: nobody can open it any more.
  void withdraw(const MemoryRecord& record) EXCLUDES(lock_);

  // Frees a device's own memory, of which the record is taken out and which no work uses any more:
  // at once, or else when nobody has it open any more.
  void free(const MemoryRecord& record) EXCLUDES(lock_);
  // Frees what others had open and have let go of. True: there was something. Costs next to nothing
  // without.
  bool free_returned() EXCLUDES(lock_);

 private:
  // The handle for this one, put up if there is none yet.
  CUresult offer(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id, const Offer& what,
                 OfferHandle& handle) REQUIRES(lock_);
  void take_down(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id) REQUIRES(lock_);
  bool is_open_elsewhere(const MemoryRecord& record) const {
    return runtime_.heap().is_open_elsewhere(record.base, record.bytes, record.device);
  }
  void free_now(const MemoryRecord& record);

  Runtime& runtime_;
  HeldPages& held_pages_;
  Mutex lock_{LockOrder::offers};
  std::unique_ptr<OfferBoard> board_ GUARDED_BY(lock_);            // made for the first offer
  std::map<std::uint64_t, OfferHandle> memory_ GUARDED_BY(lock_);  // by the record's id
  std::map<std::uint64_t, OfferHandle> pools_ GUARDED_BY(lock_);   // by the handle
  std::map<std::uint64_t, OfferHandle> events_ GUARDED_BY(lock_);  // by serial number
  std::vector<MemoryRecord> kept_ GUARDED_BY(lock_);               // freed here and open elsewhere
  std::atomic<bool> keeps_ = false;                                // some of these
};

}  // namespace wherry::impl
