// What is recorded: one value of a fixed size for everything that happens to pages, allocations and
// launches. Which kinds there are is public (wherry/events.h) and part of the trace format
// (docs/trace-format.md): new ones go to the end.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/processor.h"

namespace wherry::impl {

enum class EventKind : std::uint8_t {
  fault,         // a touch was answered; duration: from its message to just before the wake
  migration,     // pages went from `source` to `destination`
  remote_map,    // pages of the pool `source` were entered in the page table of `destination`
  duplicate,     // pages of `source` got a copy at `destination`
  invalidate,    // `source` lost its copy of pages, or its only one
  populate,      // pages came to exist at `destination`
  eviction,      // a block left `source` to make room
  launch_begin,  // `destination` was given a kernel
  launch_end,    // the host noticed its end
  throttle_begin,
  throttle_end,
  thrashing,  // `processors` take pages from each other
  pin,        // pages stay where they are from now on
  unpin,
  allocation,
  free,
  advice,  // also a prefetch that the program asked for
};
inline constexpr unsigned event_kinds = 17;

// A set of kinds: bit k for kind k.
using EventKinds = std::uint32_t;
constexpr EventKinds bit_of(EventKind kind) {
  return EventKinds{1} << static_cast<unsigned>(kind);
}
inline constexpr EventKinds all_event_kinds = (EventKinds{1} << event_kinds) - 1;

// Why pages moved, came to exist or ceased to.
enum class EventCause : std::uint8_t {
  none,
  fault,
  prefetch,              // the program asked for it
  speculative_prefetch,  // the library expects them to be used
  eviction,
  thrash_pin,
  advice,    // of the program: advice, and wherryPin
  copy,      // a copy or a fill by the library
  creation,  // pages that exist before anybody touches them
  release,   // freed, or discarded
};
inline constexpr unsigned event_causes = 10;

enum class EventAccess : std::uint8_t {
  none,
  read,
  write,
};
inline constexpr unsigned event_accesses = 3;

// What EventRecord::detail says.
enum class FaultDetail : std::uint8_t {
  missing,        // the page was in nobody's view of the toucher
  minor,          // ... in its pool, but not in its page table
  write_protect,  // a write to a protected entry
};
// Added to those: the thread got a signal.
inline constexpr std::uint8_t fault_refused = 4;
enum class EvictionDetail : std::uint8_t {
  needed,  // somebody waited for the room
  background,
};
enum class LaunchDetail : std::uint8_t {
  finished,
  lost,  // the device ended first, or the work was thrown away
};
enum class AllocationDetail : std::uint8_t {
  managed,
  device,    // in the pool of `destination` for as long as it lives
  variable,  // of a module; managed, never freed
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

struct EventRecord {
  static constexpr std::int8_t nobody = -1;

  std::uint64_t time_ns = 0;      // when it began, as now_ns() counts
  std::uint64_t duration_ns = 0;  // 0: it is a moment, or nobody measured
  std::uint64_t address =
      0;                    // the first byte; of a fault: that was touched; of launches: the kernel
  std::uint64_t bytes = 0;  // of launches: items
  std::uint32_t thread = 0;  // who touched, as the kernel counts; 0: not known
  // Of launches: their number on the device. Of evictions: how many of the pages were copies that
  // were only dropped. Of advice: the host's node that is meant, plus 1. Else 0.
  std::uint32_t value = 0;
  EventKind kind = EventKind::fault;
  EventCause cause = EventCause::none;
  EventAccess access = EventAccess::none;
  std::uint8_t detail = 0;           // one of the enums above, by kind
  std::int8_t source = nobody;       // processors, by index
  std::int8_t destination = nobody;  // of a fault: who touched
  std::uint16_t processors = 0;      // more of them, by bit

  bool operator==(const EventRecord&) const = default;
};
static_assert(sizeof(EventRecord) == 48);
static_assert(max_processors <= 16, "they fit EventRecord::processors");

constexpr std::int8_t index_of(Processor p) {
  return static_cast<std::int8_t>(p.index);
}
template <typename Detail>
constexpr std::uint8_t code_of(Detail detail) {
  return static_cast<std::uint8_t>(detail);
}

// Their names in reports, as in docs/trace-format.md.
std::string_view to_string(EventKind kind);
std::string_view to_string(EventCause cause);
std::string_view to_string(EventAccess access);
// What the detail of such an event says; empty: nothing.
std::string_view detail_name(const EventRecord& event);

}  // namespace wherry::impl
