// What the bookkeeping of pages (migration/page_books.h) tells one processor's pool: which blocks
// hold pages there, in what order they should leave, and which reserved pages are free again. A
// live pool and a replay's pool implement it.
#pragma once

#include <cstdint>

#include "base/page.h"
#include "memory/processor_memory.h"
#include "policy/replacement.h"

namespace wherry::impl {

class PoolLedger {
 public:
  virtual ~PoolLedger() = default;

  // So many pages have left the pool: their capacity is free again.
  virtual void give_back(std::uint64_t pages) = 0;
  // `page` is the first page of a run that has arrived in the block. `is_first`: the pool held no
  // page of the block before.
  virtual void arrived(BlockIndex block, std::uint64_t page, bool is_first) = 0;
  // The pool holds no page of the block any more.
  virtual void emptied(BlockIndex block, Replacement::LeftBy how) = 0;
  // A processor has accessed pages of the block that the pool holds.
  virtual void accessed(BlockIndex block) = 0;
  virtual Counters& counters() = 0;
};

}  // namespace wherry::impl
