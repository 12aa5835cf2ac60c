// What Linux says about the page frames that this process maps: which folio a frame belongs to. A
// folio is what Linux allocates, splits and frees as one: a page, or an aligned power of two of
// pages (a huge page is a folio of 2 MiB). Needs the privilege to see frame numbers (CAP_SYS_ADMIN)
// and /proc/kpageflags; without it every answer is nullopt.
#pragma once

#include <cstdint>
#include <optional>

#include "os/files/fd.h"

namespace wherry::impl {

class PageFrames {
 public:
  PageFrames();

  // Whether this process maps the page. nullopt: Linux does not say. Needs no privilege.
  std::optional<bool> is_mapped(std::uintptr_t page) const;
  enum class Place {
    alone,    // the page is a folio of its own
    first,    // it is the first page of a folio of several
    further,  // the page before it in the file belongs to the same folio
  };
  // Where the page is in its folio. Requires: the process maps the page, and it stays mapped during
  // the call. Any thread, also in a signal handler; two system calls, 1 us.
  std::optional<Place> place_of(std::uintptr_t page) const;

 private:
  std::optional<std::uint64_t> entry_of(std::uintptr_t page) const;

  Fd pagemap_;
  Fd flags_;
};

}  // namespace wherry::impl
