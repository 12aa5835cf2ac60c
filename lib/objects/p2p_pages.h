// Pages that third parties, such as a network card's driver, read and write by themselves
// (wherryGetP2PPages). The pages stay where they are until put(), even if the program frees their
// memory before that. Any thread.
#pragma once

#include <wherry/wherry.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "objects/virtual_memory.h"
#include "pages/memory_records.h"
#include "runtime/runtime.h"

namespace wherry::impl {

// The number that names the allocation to third parties, together with an address in it: the
// vaSpaceToken of its CUDA_POINTER_ATTRIBUTE_P2P_TOKENS.
inline unsigned token_of(const MemoryRecord& record) {
  return static_cast<unsigned>(record.id);
}

// The bytes that a third party asks for, as it names them.
struct WantedPages {
  unsigned token = 0;  // of the allocation
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

class P2PPages {
 public:
  P2PPages(Runtime& runtime, const MemoryRecords& records, const VirtualMemory& mapped)
      : runtime_(runtime), records_(records), mapped_(mapped) {}

  // Pins the pages and stores where they are, and in `count` how many extents that takes. If
  // `extents` is too small, nothing is pinned, and the result is CUDA_ERROR_INVALID_VALUE. Throws
  // std::bad_alloc.
  CUresult get(const WantedPages& wanted, std::span<wherryPageExtent> extents, std::size_t& count)
      EXCLUDES(lock_);
  CUresult put(const WantedPages& wanted) EXCLUDES(lock_);
  // Called instead of freeing the record's memory at once. Returns true if pages of it are pinned:
  // put() frees it then. Returns false if the caller must free it.
  bool keep(const MemoryRecord& record) EXCLUDES(lock_);

 private:
  using Range = std::pair<std::uintptr_t, std::size_t>;
  struct PinnedAllocation {
    MemoryRecord record;
    std::vector<Range> ranges;     // one for each get() without its put()
    std::vector<PageSpan> pinned;  // pages that only get() has pinned
    // Set for memory of cuMemMap: its pages stay as long as the file is open.
    std::shared_ptr<const Fd> file;
    bool freed = false;  // by the program
  };

  std::vector<PinnedAllocation>::iterator find(unsigned token, std::uintptr_t address)
      REQUIRES(lock_);
  // Removes the entry if none of its ranges is left.
  void unpin_if_unused(std::vector<PinnedAllocation>::iterator entry) REQUIRES(lock_);
  // Both find where the wanted pages are. Those in the arena are pinned if they are managed.
  CUresult find_in_arena(const WantedPages& wanted, PinnedAllocation& entry,
                         std::vector<wherryPageExtent>& found) REQUIRES(lock_);
  CUresult find_mapped(const WantedPages& wanted, PinnedAllocation& entry,
                       std::vector<wherryPageExtent>& found) REQUIRES(lock_);
  PageSpan pages_of(const WantedPages& wanted) const;

  Runtime& runtime_;
  const MemoryRecords& records_;
  const VirtualMemory& mapped_;
  // Held while pages are pinned, so that keep() waits and their memory is not freed meanwhile.
  Mutex lock_{LockOrder::p2p_pages};
  std::vector<PinnedAllocation> allocations_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
