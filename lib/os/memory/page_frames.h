// What Linux says about the page frames that this process maps: which folio a frame belongs to. A
// folio is what Linux allocates, splits and frees as one: a page, or an aligned power of two of
// pages (a huge page is a folio of 2 MiB). Needs the privilege to see frame numbers (CAP_SYS_ADMIN)
// and /proc/kpageflags; without it every answer is nullopt.
#pragma once

#include <cstdint>
#include <optional>

#include "os/files/fd.h"
#include "os/memory/page_table.h"

namespace wherry::impl {

class PageFrames {
 public:
  PageFrames();

  // The page table of this process.
  const PageTable& page_table() const { return page_table_; }

  enum class Place {
    alone,    // the page is a folio of its own
    first,    // it is the first page of a folio of several
    further,  // the page before it in the file belongs to the same folio
  };
  // Where the page is in its folio. Requires: the process maps the page, and it stays mapped during
  // the call. Any thread, also in a signal handler; two system calls, 1 us.
  std::optional<Place> place_of(std::uintptr_t page) const;

 private:
  PageTable page_table_{0};
  Fd flags_;
};

}  // namespace wherry::impl
