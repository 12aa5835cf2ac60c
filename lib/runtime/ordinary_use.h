// Operations on managed memory that a library (lib/run) hands out in place of ordinary memory, for
// programs that use it as such: gives up pages, which then read as zeros (madvise), saves contents
// for a forked child, and turns an allocation into private memory, on which Linux does whatever the
// program asks (mprotect, mremap, mlock, ...).
//
// Any thread may call, except those that answer faults.
#pragma once

#include <cstdint>

#include "base/page.h"
#include "memory/page_owners.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "migration/pin_gate.h"
#include "migration/view_switcher.h"
#include "os/memory/substitute.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "runtime/pool_budget.h"
#include "runtime/program_advice.h"

namespace wherry::impl {

class OrdinaryUse {
 public:
  // All outlive this.
  struct Parts {
    const ArenaLayout& layout;
    BlockDirectory& blocks;
    AddressSpace& address_space;
    PageOwners& page_owners;
    PageEngine& engine;
    AdviceEffects& effects;
    ViewSwitcher& switcher;
    PoolBudget& budget;
    ProgramAdvice& advice;
    PinGate& gate;
  };

  explicit OrdinaryUse(const Parts& parts) : parts_(parts) {}

  enum class Result {
    done,
    not_managed,  // the pages are not part of one live managed allocation
    pinned,
    too_small,  // the allocation shares a block with others
    no_memory,
    failed,  // a file could not be written
  };
  // Takes the pages out of every pool. They are zeros at the next access.
  Result free_pages(PageSpan pages) EXCLUDES(parts_.advice.lock);
  // Writes the pages that exist to the file, the first one at `offset`, and leaves holes for the
  // others. Each page is written as it is at some moment during the call.
  Result save_pages(PageSpan pages, int fd, std::uint64_t offset) EXCLUDES(parts_.advice.lock);
  // The allocation that starts at `address` becomes private anonymous memory of the program, with
  // its contents, atomically for running threads. It is not managed any more. Nothing has changed
  // unless the result is done. Requires: no isolated device uses it.
  Result make_private(std::uintptr_t address) EXCLUDES(parts_.advice.lock, parts_.gate.lock);

 private:
  bool has_pins(PageSpan pages) const;
  // Copies the run to `own`, maps `own` in its place, and frees its pages in the pools.
  void make_private(BlockIndex index, PageRun run, Substitute& own) EXCLUDES(parts_.gate.lock);

  const Parts parts_;
};

}  // namespace wherry::impl
