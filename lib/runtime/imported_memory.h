// Other processes' device memory that is open here (cuIpcOpenMemHandle, cuMemPoolImportPointer):
// part of a file of theirs, shown in the annex to devices of this process. The descriptor and the
// mappings keep the file, also when its process ends; the mark on it (os/files/range_mark.h) tells
// its process not to use the pages for anything else. Any thread.
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

// Finds what the handle of another process names: CUDA_ERROR_INVALID_VALUE, there is no such offer;
// CUDA_ERROR_INVALID_CONTEXT, it is this process's own; CUDA_ERROR_MAP_FAILED, the kernel refuses,
// with a line in the log. Throws std::system_error where the kernel cannot tell, as for want of
// descriptors.
CUresult find_offer(const OfferHandle& handle, OfferKind kind, ForeignOffer& found);
// Opens its file. As find_offer(); CUDA_ERROR_INVALID_VALUE: the offer, or its process, has just
// ended.
CUresult open_offer(const OfferHandle& handle, const ForeignOffer& offer, Fd& file);

// A pool of another process, of which nothing can be allocated here. Its devices' access is guarded
// by ImportedMemory.
struct ImportedMemoryPool {
  OfferHandle offer;
  int device = 0;
  CUmemoryPool handle = nullptr;
  ProcessorMask accessible = 0;
};

class ImportedMemory {
 public:
  // An open piece.
  struct Import {
    OfferHandle handle;
    MemoryRecord record;
    std::uintptr_t place = 0;  // what is reserved in the annex, from a little before it on
    std::shared_ptr<Fd> file;
    std::uint64_t offset = 0;    // of the first byte, in it
    ProcessorMask shown_to = 0;  // devices
    int opened_for = 0;          // the device of the context
    unsigned users = 1;
  };

  explicit ImportedMemory(Runtime& runtime) : runtime_(runtime) {}

  // Opens what the handle names for the device, and the memory's own one where this process sees
  // that, and the same again where that was done before. Throws std::system_error, std::bad_alloc.
  CUresult open(const OfferHandle& handle, CUcontext context, int device, CUdeviceptr& address)
      EXCLUDES(lock_);
  // One user less. CUDA_ERROR_INVALID_VALUE: no memory begins at the address that open() gave. If
  // it was the last one the piece is in `last`, is nothing to this API any more, and is to be
  // handed to end().
  CUresult close(std::uintptr_t address, std::optional<Import>& last) EXCLUDES(lock_);

  // The same for memory of a pool, for the devices that have access to it. Each piece has one user.
  CUresult open_pooled(const OfferHandle& handle, const ImportedMemoryPool& pool,
                       CUdeviceptr& address) EXCLUDES(lock_);
  // Nothing: no memory of an imported pool begins there.
  std::optional<Import> take_pooled(std::uintptr_t address) EXCLUDES(lock_);

  // Opens a pool. Its memory is accessible to its own device, or to `otherwise` where this process
  // does not see that one.
  CUresult open_pool(const OfferHandle& handle, int otherwise, ImportedMemoryPool& pool);
  bool is_accessible(const ImportedMemoryPool& pool, int device) EXCLUDES(lock_);
  // For all that is open of it, too. Requires: no work of a device that loses it is under way.
  CUresult set_access(ImportedMemoryPool& pool, int device, bool accessible) EXCLUDES(lock_);

  // Nobody sees it any more, and its process may know. Requires: no work uses it.
  void end(const Import& import);

 private:
  using Imports = std::map<std::uintptr_t, Import>;

  // Finds the file, and says where in it the piece is, and what was offered.
  static CUresult find_file(const OfferHandle& handle, OfferKind kind, Import& piece, Offer& what);
  // Shows it to its devices, and makes it known.
  CUresult place(Import& piece) REQUIRES(lock_);
  void remember(const Import& piece) REQUIRES(lock_);
  // To a device. An errno: it may see part of it.
  int show_or_hide(Import& piece, ProcessorMask bit, bool show) REQUIRES(lock_);
  std::optional<Import> take(Imports::iterator piece) REQUIRES(lock_);
  static Annex::Window window_of(const Import& piece);

  Runtime& runtime_;
  Mutex lock_{LockOrder::imported};
  Imports imports_ GUARDED_BY(lock_);  // by address
};

}  // namespace wherry::impl
