// Mapper by userfaultfd: the host's own, or a device process's. The process may be replaced while
// other threads use the mapper: detach() when it has ended, attach() when there is a new one. In
// between every call returns process_gone. Any thread may call.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/lock.h"
#include "os/memory/page_table.h"
#include "pages/arena_layout.h"
#include "trap/mapper.h"

namespace wherry::impl {

class UserfaultfdMapper final : public Mapper {
 public:
  // `layout` outlives the mapper. `hide` makes a range inaccessible where Linux cannot poison
  // pages; it returns 0 or an errno. `end_process` ends a device process whose accesses cannot be
  // trapped any more; it is empty for the host.
  UserfaultfdMapper(const ArenaLayout& layout,
                    std::function<int(std::uintptr_t address, std::size_t bytes)> hide,
                    std::function<void()> end_process = {})
      : layout_(layout), hide_(std::move(hide)), end_process_(std::move(end_process)) {}

  // `process`: the process that created the userfaultfd, or 0 for this one.
  void attach(std::shared_ptr<const Userfaultfd> uffd, pid_t process = 0) EXCLUDES(lock_);
  void detach() EXCLUDES(lock_);

  bool punch_unmaps() const override { return true; }
  unsigned grain() const override { return 1; }
  OpResult unmap(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult copy_protected(PageSpan span, const std::byte* source,
                          FaultSlot* waiter = nullptr) override;
  OpResult zero(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult map_resident(PageSpan span, bool write_protected, FaultSlot* waiter = nullptr) override;
  OpResult map_whole(PageSpan block, FaultSlot* waiter = nullptr) override;
  OpResult write_protect(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult write_unprotect(PageSpan span, FaultSlot* waiter = nullptr) override;
  OpResult remove_entries(PageSpan block) override;
  OpResult split_folios(PageSpan span) override;
  OpResult forbid(PageSpan span, PageIndex page) override;
  OpResult hide(PageSpan span) override;
  OpResult wake(PageSpan span) override;

 private:
  std::uintptr_t address(PageSpan span) const { return layout_.address_of(span.first); }
  template <typename Call>
  OpResult with_uffd(Call call) EXCLUDES(lock_);
  // Whether map_whole() has entered a huge page.
  OpStatus check_entered_whole(const Userfaultfd& uffd, PageSpan block) const
      REQUIRES_SHARED(lock_);
  // Registers the block again after map_whole() has unregistered it. Returns ok or process_gone.
  OpStatus trap_again(const Userfaultfd& uffd, PageSpan block) const;

  const ArenaLayout& layout_;
  const std::function<int(std::uintptr_t, std::size_t)> hide_;
  const std::function<void()> end_process_;
  SharedMutex lock_{LockOrder::mapper};
  std::shared_ptr<const Userfaultfd> uffd_ GUARDED_BY(lock_);  // null: the process is gone
  pid_t process_ GUARDED_BY(lock_) = 0;
  std::optional<PageTable> page_table_ GUARDED_BY(lock_);  // the process's
  std::atomic<bool> enters_huge_pages_{true};              // false: Linux refuses
};

}  // namespace wherry::impl
