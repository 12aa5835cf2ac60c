// Records operations on pages: as events, if recording is on (trace/recorder.h), and as decisions
// that wherryExplainPage() shows. Any thread; takes no lock.
#pragma once

#include <optional>

#include "base/page_mask.h"
#include "base/processor.h"
#include "migration/decision_log.h"
#include "pages/arena_layout.h"
#include "policy/policy.h"
#include "trace/event.h"

namespace wherry::impl {

// Why pages move. Pages that are expected to be accessed move together with a page that was
// accessed.
struct Motive {
  MoveCause cause;
  std::optional<unsigned> accessed;  // the page that was accessed, in its block

  Motive(MoveCause c = MoveCause::fault, std::optional<unsigned> page = {})
      : cause(c), accessed(page) {}
};

// What an operation did to pages of a block.
struct OperationRecord {
  EventKind kind;
  Motive motive;
  std::optional<Processor> from;
  std::optional<Processor> to;
  std::uint64_t begun_ns = 0;  // 0: the event has no duration
};

class OperationRecorder {
 public:
  // `layout` gives pages their addresses in events; null: page 0 has the address 0.
  explicit OperationRecorder(const ArenaLayout* layout) : layout_(layout) {}

  // The time at which an operation of this kind begins, if events of the kind are recorded; else 0.
  static std::uint64_t begin_ns(EventKind kind);
  void record(const OperationRecord& operation, BlockIndex block, PageRun run);
  void record_release(BlockIndex block, PageRun run);
  // Records that these processors take the pages from each other since `now_ns`, when the pages
  // arrived at `to`.
  void record_thrashing(PageSpan pages, Processor to, ProcessorMask processors,
                        std::uint64_t now_ns) const;

  // The address of a page in events; nullopt if the page is about to become a variable's, and has
  // no address yet.
  std::optional<std::uint64_t> address_of(PageIndex page) const {
    if (layout_ == nullptr) return offset_of(page);
    return layout_->find_address_of(page);
  }
  DecisionLog& decisions() { return decisions_; }
  const DecisionLog& decisions() const { return decisions_; }

 private:
  // Records a part of an operation that happened for one reason.
  void record_part(const OperationRecord& operation, BlockIndex block, PageRun run,
                   std::uint64_t duration_ns) const;

  const ArenaLayout* const layout_;
  DecisionLog decisions_;
};

}  // namespace wherry::impl
