// How one processor comes to see another one's pool at a place of the arena: the seam between those
// who decide on remote mappings and the process that has to map them. Tests wrap it to delay or
// fail changes.
#pragma once

#include <cstdint>
#include <span>

#include "base/page.h"
#include "base/processor.h"

namespace wherry::impl {

class ViewChanger {
 public:
  virtual ~ViewChanger() = default;

  // The processor's view of the pages becomes the pool of `owner`, at once for its running threads
  // and with no page mapped. Meanwhile calls on its mapper answer incomplete. May take as long as
  // it takes to have a fault answered: never called under a lock that a fault needs. Returns 0 or
  // an errno, with nothing changed; ENOMEM: the process has as many mappings as it may have.
  [[nodiscard]] virtual int change_view(PageSpan span, Processor owner) = 0;
  // Takes the processor's own entries for these pages, at most pages_max, out of its page table:
  // the next touch of each is a fault. What the pools hold, and write protection, stay. Never
  // called under a lock that a fault needs. Returns 0 or an errno: then nobody knows which are out.
  [[nodiscard]] virtual int forget_entries(std::span<const std::uint64_t> pages) = 0;
  static constexpr std::size_t pages_max = 16;
  // How many mappings the processor's process has, asked of the kernel; 0: it does not say.
  virtual std::uint64_t count_mappings() = 0;
};

}  // namespace wherry::impl
