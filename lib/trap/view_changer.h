// Changes which pool one processor sees at a place of the arena: the interface between the view
// switcher and the process that has to map the pool. Tests wrap it to delay or fail changes.
#pragma once

#include <cstdint>
#include <span>

#include "base/page.h"
#include "base/processor.h"

namespace wherry::impl {

class ViewChanger {
 public:
  virtual ~ViewChanger() = default;

  // The processor's view of the pages becomes the pool of `owner`, atomically for its running
  // threads, with no page mapped. Meanwhile calls of its mapper return incomplete. May wait for a
  // fault handler, so it is never called under a lock that the resolution of a fault needs. Returns
  // 0, or an errno with nothing changed; ENOMEM: the process has as many mappings as it may have.
  [[nodiscard]] virtual int change_view(PageSpan span, Processor owner) = 0;
  // Removes the processor's page table entries of these runs of pages, at most runs_max, so that
  // the next access to each page faults. A run does not leave its block. The pools and the write
  // protection do not change. Never called under a lock that the resolution of a fault needs.
  // Returns 0 or an errno; with an errno, some entries may have been removed, or may be later.
  // Waits for a second at most, and not at all for a process that is overdue.
  [[nodiscard]] virtual int forget_entries(std::span<const PageSpan> runs) = 0;
  static constexpr std::size_t runs_max = 16;
  // Whether the processor's process has left a command without an answer for a second, and has not
  // answered yet. Then nobody who could do without the answer waits for it. Any thread, under any
  // lock.
  virtual bool is_overdue() { return false; }
  // How many mappings the processor's process has, or 0 if unknown.
  virtual std::uint64_t count_mappings() = 0;
};

}  // namespace wherry::impl
