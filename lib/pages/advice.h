// The program's advice for its memory, per page, and where it last prefetched each page to. Only
// bookkeeping: other classes apply the advice to pages.
#pragma once

#include <cstdint>

#include "base/page.h"
#include "base/page_mask.h"
#include "base/processor.h"
#include "pages/stretch_map.h"

namespace wherry::impl {

// A place that memory can be in, as the API names it.
struct Location {
  enum class Kind : std::uint8_t {
    none,
    device,
    host,       // any NUMA node of the host
    host_node,  // one NUMA node of the host
    // The host's NUMA node nearest to the calling thread. Only reported back to the program; memory
    // is treated as on the host.
    callers_node,
  };

  Kind kind = Kind::none;
  // The device's ordinal or the node's number; for callers_node the number that the program gave;
  // else 0.
  std::int32_t id = 0;

  static constexpr Location device(int ordinal) { return {Kind::device, ordinal}; }
  static constexpr Location host() { return {Kind::host, 0}; }
  static constexpr Location host_node(int node) { return {Kind::host_node, node}; }
  static constexpr Location callers_node(int said) { return {Kind::callers_node, said}; }

  constexpr bool is_none() const { return kind == Kind::none; }
  // The processor whose pool this is. Requires: not none.
  constexpr Processor processor() const {
    return kind == Kind::device ? Processor::device(id) : Processor::host();
  }
  constexpr bool operator==(const Location&) const = default;
};

// All advice for a page. The default is no advice.
struct Advice {
  bool read_mostly = false;
  Location preferred;
  ProcessorMask accessed_by = 0;
  bool pinned = false;  // it stays in its pool, and has no copies

  bool operator==(const Advice&) const = default;
};

// One change of advice.
struct AdviceChange {
  enum class Kind {
    set_read_mostly,
    unset_read_mostly,
    set_preferred,
    unset_preferred,
    set_accessed_by,
    unset_accessed_by,
    pinned,
    unpinned,
  };

  Kind kind;
  Location location;  // for set_preferred and (un)set_accessed_by

  void apply(Advice& advice) const;
};

class AdviceMap : public StretchMap<Advice> {
 public:
  // Applies the change to the span. Throws std::bad_alloc, and has then changed nothing.
  void change(PageSpan span, const AdviceChange& change);
  // Which of the block's pages are pinned.
  PageMask pinned(BlockIndex block) const;
};

// The destination of the program's last prefetch of each page. It is no advice: it is only reported
// back to the program, and nothing that the library does to pages depends on it.
using LastPrefetches = StretchMap<Location>;

}  // namespace wherry::impl
