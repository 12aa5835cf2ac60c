// Mapper that gives and takes access to a process's view of the arena, page by page. What a process
// may not access has no page behind it as far as it can tell; what it may access is in the file
// that its view shows, and Linux enters it in the page table when it is touched.
//
// Each change of access may split a mapping of the process. Where it shall have no more, access to
// all of the arena is taken away, so that it is one mapping again; that costs faults, and no data.
// Where it may have no more - the program has many itself - more is taken away than was asked for
// until neighbours are alike and merge: first the 64 KiB around, then the block, then the arena.
// Each time the grain rises, so that what comes back is less divided, and so does what is taken
// away first: an instruction that needs several pages of one stretch would have them take each
// other away for ever. When little is mapped again the grain falls.
//
// The process may be exchanged while others use the mapper, as UserfaultfdMapper's. Any thread,
// also one in a signal handler.
#pragma once

#include <atomic>
#include <memory>

#include "base/lock.h"
#include "os/files/memory_file.h"
#include "trap/mapper.h"
#include "trap/protector.h"

namespace wherry::impl {

// What it needs of a pool.
class HoleFiller {
 public:
  virtual ~HoleFiller() = default;
  // Puts copies of the pages at `source` into the file, mapped at no processor. Requires: they are
  // not there.
  [[nodiscard]] virtual OpResult fill(PageSpan span, const std::byte* source) = 0;
  // The same with zero pages.
  [[nodiscard]] virtual OpResult fill_zero(PageSpan span) = 0;
};

class ProtectionMapper final : public Mapper {
 public:
  // `pool`: the processor's own; `arena_pages`: how many the arena has; `mappings_budget`: how many
  // mappings its process shall have at most, 0: as many as it may.
  ProtectionMapper(HoleFiller& pool, std::uint64_t arena_pages, std::uint64_t mappings_budget)
      : pool_(pool), arena_{0, arena_pages}, budget_(mappings_budget) {}

  void attach(std::shared_ptr<Protector> protector) EXCLUDES(lock_);
  void detach() EXCLUDES(lock_);

  bool punch_unmaps() const override { return false; }
  unsigned grain() const override;
  OpResult unmap(PageSpan span) override;
  OpResult copy_protected(PageSpan span, const std::byte* source) override;
  OpResult zero(PageSpan span) override;
  OpResult map_resident(PageSpan span, bool write_protected) override;
  OpResult map_whole(PageSpan block) override;
  OpResult write_protect(PageSpan span) override;
  OpResult write_unprotect(PageSpan span) override;
  OpResult forbid(PageSpan span) override;
  OpResult wake(PageSpan span) override;
  // Others have made so many changes that may have split mappings of the process.
  void count_others(std::uint64_t changes);

 private:
  // How much is treated alike.
  enum Shortage : unsigned {
    none,
    regions,
    blocks,
  };

  OpResult change(PageSpan span, Access access) EXCLUDES(lock_);
  // Has the process keep to its budget after another change.
  void mind_budget(Protector& protector);
  // Takes away what makes neighbours differ, more with every step, until the change has room.
  int change_in_few_mappings(Protector& protector, PageSpan span, Access access);
  // Fills holes, then has the result entered.
  template <typename Fill>
  OpResult fill_and_enter(PageSpan span, Access access, Fill fill) EXCLUDES(lock_);

  HoleFiller& pool_;
  const PageSpan arena_;
  const std::uint64_t budget_;
  std::atomic<std::uint64_t> mappings_{0};  // at most so many; 0: not counted yet
  std::atomic<unsigned> shortage_{none};
  SharedMutex lock_{LockOrder::mapper};
  std::shared_ptr<Protector> protector_ GUARDED_BY(lock_);  // null: the process is gone
};

}  // namespace wherry::impl
