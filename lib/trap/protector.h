// Changes the page protections of one process: of this one, or of a device process.
#pragma once

#include <unistd.h>

#include "base/page.h"
#include "os/memory/mapping.h"
#include "os/memory/mapping_count.h"
#include "os/memory/page_table.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

struct FaultSlot;  // trap/fault_board.h

class Protector {
 public:
  virtual ~Protector() = default;
  // Sets the access to these pages; at the return it applies to all threads of the process. Pages
  // without an address are skipped. `waiter`: as in Mapper. `entries`: as in change_view_access().
  // Returns 0 or an errno. ESRCH: the process has ended, or will access nothing any more. ENOMEM:
  // it has as many mappings as it may have, and a part of the change may have been made. EBUSY: as
  // in change_view_access().
  [[nodiscard]] virtual int protect(PageSpan span, Access access, HugeEntries entries,
                                    FaultSlot* waiter) = 0;
  // Ends a process whose access cannot be removed. Returns false if that is this process, which
  // goes on.
  virtual bool end_process() { return false; }
  // How many mappings the process has, or 0 if unknown.
  virtual std::uint64_t count_mappings() = 0;
};

// The Protector of the calling process. May be called in the signal handler of a thread of the
// host.
class OwnProtector final : public Protector {
 public:
  explicit OwnProtector(const ArenaLayout& layout) : layout_(layout) {}
  int protect(PageSpan span, Access access, HugeEntries entries, FaultSlot* /*waiter*/) override {
    return layout_.for_each_address_range(span, [&](std::uintptr_t address, std::size_t bytes) {
      return change_view_access(address, bytes, access, entries, page_table_);
    });
  }
  std::uint64_t count_mappings() override { return impl::count_mappings(::getpid()); }

 private:
  const ArenaLayout& layout_;
  const PageTable page_table_{0};
};

}  // namespace wherry::impl
