// Device memory of other processes that this process has opened (cuIpcOpenMemHandle,
// cuMemPoolImportPointer): part of the other process's file, mapped in the annex by devices of this
// process. The descriptor and the mappings keep the file, also when the other process ends. A mark
// on the file (os/files/range_mark.h) tells the other process not to use the pages for anything
// else. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "memory/offer_board.h"
#include "pages/memory_records.h"
#include "runtime/runtime.h"

namespace wherry::impl {

// Finds the offer (the other process's entry for what it shares) that the handle names. Returns
// CUDA_ERROR_INVALID_VALUE if there is no such offer, CUDA_ERROR_INVALID_CONTEXT if it is this
// process's own, CUDA_ERROR_MAP_FAILED if Linux refuses access, with a line in the log. Throws
// std::system_error if Linux gives no answer at the moment, for example for lack of descriptors.
CUresult find_offer(const OfferHandle& handle, OfferKind kind, ForeignOffer& found);
// Opens the file of the offer. Returns find_offer()'s errors; CUDA_ERROR_INVALID_VALUE also if the
// offer, or its process, has just ended.
CUresult open_offer(const OfferHandle& handle, const ForeignOffer& offer, Fd& file);

// A memory pool of another process. This process cannot allocate from it. ImportedMemory's lock
// guards `accessible`.
struct ImportedMemoryPool {
  OfferHandle offer;
  int device = 0;
  CUmemoryPool handle = nullptr;
  ProcessorMask accessible = 0;
};

class ImportedMemory {
 public:
  // Memory of another process that is open in this one.
  struct Import {
    OfferHandle handle;
    MemoryRecord record;
    std::uintptr_t place = 0;  // start of the reservation in the annex, before or at record.base
    std::shared_ptr<Fd> file;
    std::uint64_t offset = 0;    // of the memory's first byte in the file
    ProcessorMask shown_to = 0;  // the devices that map it
    int opened_for = 0;          // the device of the context that opened it
    unsigned users = 1;
  };

  explicit ImportedMemory(Runtime& runtime) : runtime_(runtime) {}

  // Opens the memory that the handle names for `device`, and for the memory's own device if this
  // process sees that device. If the memory is already open for `device`, counts one more user and
  // returns the same address. Throws std::system_error, std::bad_alloc.
  CUresult open(const OfferHandle& handle, CUcontext context, int device, CUdeviceptr& address)
      EXCLUDES(lock_);
  // Removes one user. Returns CUDA_ERROR_INVALID_VALUE if open() did not return `address`. If it
  // was the last user, removes the memory from the records and moves it to `last`; the caller
  // passes that to end().
  CUresult close(std::uintptr_t address, std::optional<Import>& last) EXCLUDES(lock_);

  // Opens memory that was allocated from the pool, for the devices that have access to the pool.
  // Each import has one user.
  CUresult open_pooled(const OfferHandle& handle, const ImportedMemoryPool& pool,
                       CUdeviceptr& address) EXCLUDES(lock_);
  // Removes the import at this address from the records; the caller passes it to end(). Returns
  // nullopt if no memory of an imported pool begins at the address.
  std::optional<Import> take_pooled(std::uintptr_t address) EXCLUDES(lock_);

  // Opens a pool. Its memory is accessible to its own device, or to device `otherwise` if this
  // process does not see that device.
  CUresult open_pool(const OfferHandle& handle, int otherwise, ImportedMemoryPool& pool);
  bool is_accessible(const ImportedMemoryPool& pool, int device) EXCLUDES(lock_);
  // Changes the access of a device to the pool, and to all memory that is open from it. Requires:
  // no work of a device that loses access is under way.
  CUresult set_access(ImportedMemoryPool& pool, int device, bool accessible) EXCLUDES(lock_);

  // Unmaps the memory in all devices. Its mark, and thus the other process's pages, are free when
  // the last reference to the file ends. Requires: no work uses the memory.
  void end(const Import& import);

 private:
  using Imports = std::map<std::uintptr_t, Import>;

  // Opens the file of the offer and marks the range. Sets `what` to the offer.
  static CUresult find_file(const OfferHandle& handle, OfferKind kind, Import& piece, Offer& what);
  // Maps the piece in the devices of `shown_to`, and adds it to the records.
  CUresult place(Import& piece) REQUIRES(lock_);
  void remember(const Import& piece) REQUIRES(lock_);
  // Maps or unmaps it in one device. Returns an errno if the device may map a part of it.
  int show_or_hide(Import& piece, ProcessorMask bit, bool show) REQUIRES(lock_);
  std::optional<Import> take(Imports::iterator piece) REQUIRES(lock_);
  static Annex::Window window_of(const Import& piece);

  Runtime& runtime_;
  Mutex lock_{LockOrder::imported};
  Imports imports_ GUARDED_BY(lock_);  // by address
};

}  // namespace wherry::impl
