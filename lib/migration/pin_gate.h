// Keeps background threads away from the page-table entries and frames of pinned pages, and of
// pages that become private memory. Reasons: Linux replaces the frames of pages that it merges. A
// page whose entry was removed faults again, also in a system call for which it was touched.
// Private memory whose entry is removed is lost.
//
// A background thread holds `lock` from its look at the pins until its work on these blocks is
// done. A thread that has recorded pins waits for that work, and later work sees the pins. A thread
// that makes memory private holds `lock` until no pool has the pages any more.
#pragma once

#include "base/lock.h"
#include "pages/advice.h"

namespace wherry::impl {

class PinGate {
 public:
  // `advice` outlives this.
  explicit PinGate(const AdviceMap& advice) : advice_(advice) {}

  // Never taken by a thread that holds a block's lock.
  Mutex lock{LockOrder::pins};

  PageMask pinned(BlockIndex block) const REQUIRES(lock) { return advice_.pinned(block); }
  // Call after pins were recorded. Waits at most for one merge of a block, or one batch of samples.
  void wait_for_background() EXCLUDES(lock) { const LockGuard guard(lock); }

 private:
  const AdviceMap& advice_;
};

}  // namespace wherry::impl
