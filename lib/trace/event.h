// One record of a fixed size for each event that concerns pages, allocations or launches. The kinds
// are public (wherry/events.h) and part of the trace format (docs/trace-format.md), so new kinds go
// to the end.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/processor.h"

namespace wherry::impl {

enum class EventKind : std::uint8_t {
  fault,         // a fault was resolved; duration: from its message until just before the wake-up
  migration,     // pages moved from `source` to `destination`
  remote_map,    // pages in the pool of `source` were mapped in the page table of `destination`
  duplicate,     // pages of `source` were duplicated at `destination`
  invalidate,    // `source` lost its copy of pages, or the only copy
  populate,      // pages were created at `destination`
  eviction,      // a block was evicted from `source` to free pages
  launch_begin,  // a kernel was submitted to `destination`
  launch_end,    // the host noticed that the kernel ended
  throttle_begin,
  throttle_end,
  thrashing,  // `processors` repeatedly take pages from each other
  pin,        // pages are pinned temporarily where they are
  unpin,
  allocation,
  free,
  advice,  // also a prefetch requested by the program
  mark,    // the program marked a moment or a range of its work (trace/marks.h)
  // Pages of a huge page stayed in the pool of `source` because somebody outside of the library
  // holds the huge page. `destination`: the processor that needed them; none: nobody did. The cause
  // is that of the operation that was to move them.
  held,
};
inline constexpr unsigned event_kinds = 19;

// A set of kinds: bit k for kind k.
using EventKinds = std::uint32_t;
constexpr EventKinds bit_of(EventKind kind) {
  return EventKinds{1} << static_cast<unsigned>(kind);
}
inline constexpr EventKinds all_event_kinds = (EventKinds{1} << event_kinds) - 1;

// Why pages moved, were created or were removed.
enum class EventCause : std::uint8_t {
  none,
  fault,
  prefetch,              // requested by the program
  speculative_prefetch,  // started by the library, which expects the pages to be used
  eviction,
  thrash_pin,
  advice,    // the program's advice, and wherryPinPages
  copy,      // a copy or a fill by the library
  creation,  // pages created before their first access
  release,   // the memory was freed or discarded
  // A sample of an access to a mapped page (faults/usage_sampler.h). It is also the cause of the
  // fault itself.
  sample,
};
inline constexpr unsigned event_causes = 11;

enum class EventAccess : std::uint8_t {
  none,
  read,
  write,
};
inline constexpr unsigned event_accesses = 3;

// The meaning of TraceEvent::detail, for each kind of event.
enum class FaultDetail : std::uint8_t {
  missing,        // the page was in no pool that the faulting processor's view maps
  minor,          // the page was in such a pool, but not in the processor's page table
  write_protect,  // a write to a write-protected entry
};
// Added to a FaultDetail if the thread got a signal.
inline constexpr std::uint8_t fault_refused = 4;
enum class EvictionDetail : std::uint8_t {
  needed,  // a request was waiting for free pages
  background,
};
enum class LaunchDetail : std::uint8_t {
  finished,
  lost,  // the device ended first, or the work was cancelled
};
enum class AllocationDetail : std::uint8_t {
  managed,
  device,    // in the pool of `destination` for its whole life
  variable,  // a module's variable; managed, never freed
};
enum class AdviceDetail : std::uint8_t {
  set_read_mostly,
  unset_read_mostly,
  set_preferred_location,
  unset_preferred_location,
  set_accessed_by,
  unset_accessed_by,
  prefetch,
};
inline constexpr unsigned advice_details = 7;

struct TraceEvent {
  static constexpr std::int8_t no_processor = -1;

  std::uint64_t time_ns = 0;      // start time on the scale of now_ns()
  std::uint64_t duration_ns = 0;  // 0: the event has no duration, or it was not measured
  // Address of the first byte; fault: of the accessed byte; launch: of the kernel; mark: of its
  // text in this process.
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;   // launch: number of items
  std::uint32_t thread = 0;  // the Linux id of the thread that faulted or marked; 0: unknown
  // Launch: its number on the device. Eviction: how many of the pages were duplicates that were
  // only dropped. Advice: the host NUMA node it names, plus 1. Otherwise 0.
  std::uint32_t value = 0;
  EventKind kind = EventKind::fault;
  EventCause cause = EventCause::none;
  EventAccess access = EventAccess::none;
  std::uint8_t detail = 0;                 // one of the enums above, depending on kind
  std::int8_t source = no_processor;       // processor index
  std::int8_t destination = no_processor;  // processor index; fault: the faulting processor
  std::uint16_t processors = 0;            // further processors, one bit each

  bool operator==(const TraceEvent&) const = default;
};
static_assert(sizeof(TraceEvent) == 48);
static_assert(max_processors <= 16, "TraceEvent::processors has 16 bits");

constexpr std::int8_t index_of(Processor p) {
  return static_cast<std::int8_t>(p.index);
}
template <typename Detail>
constexpr std::uint8_t code_of(Detail detail) {
  return static_cast<std::uint8_t>(detail);
}

// The cause's name in reports and in docs/trace-format.md. The tools have the names of other enums.
std::string_view to_string(EventCause cause);

}  // namespace wherry::impl
