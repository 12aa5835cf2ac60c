// Pages that third parties have (wherryP2PGetPages): they stay where they are until they are put,
// also when their memory is freed meanwhile. Any thread.
#pragma once

#include <wherry/wherry.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pages/memory_records.h"
#include "runtime/runtime.h"
#include "runtime/virtual_memory.h"

namespace wherry::impl {

// What names the allocation to third parties, beside an address in it: the vaSpaceToken of its
// P2P_TOKENS.
inline unsigned token_of(const MemoryRecord& record) {
  return static_cast<unsigned>(record.id);
}

// The bytes of an allocation that somebody wants, as it names them.
struct WantedPages {
  unsigned token = 0;  // of the allocation
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

class HeldPages {
 public:
  HeldPages(Runtime& runtime, const MemoryRecords& records, const VirtualMemory& mapped)
      : runtime_(runtime), records_(records), mapped_(mapped) {}

  // How many extents there are in `count`, which is as many as fit in. Throws std::bad_alloc.
  CUresult get(const WantedPages& wanted, std::span<wherryPageExtent> extents, std::size_t& count)
      EXCLUDES(lock_);
  CUresult put(const WantedPages& wanted) EXCLUDES(lock_);
  // The record's memory is to be freed. True: put() will do it.
  bool keep(const MemoryRecord& record) EXCLUDES(lock_);

 private:
  using Range = std::pair<std::uintptr_t, std::size_t>;
  struct Hold {
    MemoryRecord record;
    std::vector<Range> ranges;     // one for each get()
    std::vector<PageSpan> pinned;  // for it
    std::shared_ptr<const Fd>
        file;  // of what is mapped by hand: its pages stay as long as it is open
    bool freed = false;
  };

  std::vector<Hold>::iterator find(unsigned token, std::uintptr_t address) REQUIRES(lock_);
  // If nothing of it is held any more.
  void let_go(std::vector<Hold>::iterator hold) REQUIRES(lock_);
  // In the arena, whose pages may have to be pinned.
  CUresult find_in_arena(const WantedPages& wanted, Hold& hold,
                         std::vector<wherryPageExtent>& found) REQUIRES(lock_);
  CUresult find_mapped(const WantedPages& wanted, Hold& hold, std::vector<wherryPageExtent>& found)
      REQUIRES(lock_);
  PageSpan pages_of(const WantedPages& wanted) const;

  Runtime& runtime_;
  const MemoryRecords& records_;
  const VirtualMemory& mapped_;
  Mutex lock_{
      LockOrder::held_pages};  // held while pages are pinned, so that nothing is freed under it
  std::vector<Hold> holds_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
