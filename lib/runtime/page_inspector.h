// Answers questions about pages for the program and its tools: where a page is, why it is there,
// and what has been counted since the start. Changes nothing. Any thread may call. Takes the lock
// of the page's block; waits while the page moves.
#pragma once

#include <wherry/wherry.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/processor.h"
#include "migration/advice_effects.h"
#include "migration/decision_log.h"
#include "migration/page_engine.h"
#include "pages/advice.h"
#include "pages/block_directory.h"
#include "runtime/managed_heap.h"

namespace wherry::impl {

struct PageWhereabouts {
  ProcessorMask resident = 0;
  ProcessorMask mapped = 0;
  ProcessorMask writable = 0;  // a subset of `mapped`
  int node = -1;               // NUMA node of the copy; -1 if the page is absent
};

// Why a page is where it is.
struct PageExplanation {
  PageWhereabouts where;
  Advice advice;
  std::vector<DecisionRecord> decisions;  // the newest first
};

class PageInspector {
 public:
  // All outlive this.
  struct Parts {
    int processors;
    BlockDirectory& blocks;
    PageEngine& engine;
    const AdviceEffects& effects;
    ManagedHeap& heap;
  };

  explicit PageInspector(const Parts& parts) : parts_(parts) {}

  // Where the page is that contains the address; nullopt if no live allocation contains it.
  std::optional<PageWhereabouts> page_whereabouts(std::uintptr_t address);
  // Where the page is, its advice, and at most so many of the latest decisions; nullopt if it is in
  // no live allocation. Throws std::bad_alloc.
  std::optional<PageExplanation> explain(std::uintptr_t address, std::size_t decisions_max);
  wherryStats stats() const;

 private:
  const Parts parts_;
};

}  // namespace wherry::impl
