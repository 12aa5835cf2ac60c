#include "event_names.h"

#include <array>
#include <cstddef>

namespace wherry::tool {

using namespace impl;

namespace {

template <std::size_t Count>
std::string_view name_in(const std::array<std::string_view, Count>& names, std::size_t code) {
  return code < Count ? names[code] : "unknown";
}

constexpr std::array<std::string_view, event_kinds> kinds{
    "fault",      "migration",  "remote map", "duplicate",    "invalidate", "populate", "eviction",
    "launch",     "launch end", "throttle",   "throttle end", "thrashing",  "pin",      "unpin",
    "allocation", "free",       "advice",     "mark",         "held"};
constexpr std::array<std::string_view, event_accesses> accesses{"none", "read", "write"};
constexpr std::array<std::string_view, 3> processors{"host", "isolated", "coherent"};
constexpr std::array<std::string_view, 3> faults{"missing", "minor", "write-protect"};
constexpr std::array<std::string_view, 3> refused_faults{"missing, refused", "minor, refused",
                                                         "write-protect, refused"};
constexpr std::array<std::string_view, 2> evictions{"needed", "background"};
constexpr std::array<std::string_view, 2> launch_ends{"finished", "lost"};
constexpr std::array<std::string_view, 3> allocations{"managed", "device", "variable"};
constexpr std::array<std::string_view, advice_details> advice{"set read-mostly",
                                                              "unset read-mostly",
                                                              "set preferred location",
                                                              "unset preferred location",
                                                              "set accessed-by",
                                                              "unset accessed-by",
                                                              "prefetch"};

}  // namespace

std::string_view to_string(EventKind kind) {
  return name_in(kinds, code_of(kind));
}

std::string_view to_string(EventAccess access) {
  return name_in(accesses, code_of(access));
}

std::string_view to_string(TraceProcessor::Kind kind) {
  return name_in(processors, code_of(kind));
}

std::string_view detail_name(const TraceEvent& event) {
  switch (event.kind) {
    case EventKind::fault:
      return event.detail >= fault_refused ? name_in(refused_faults, event.detail - fault_refused)
                                           : name_in(faults, event.detail);
    case EventKind::eviction:
      return name_in(evictions, event.detail);
    case EventKind::launch_end:
      return name_in(launch_ends, event.detail);
    case EventKind::allocation:
      return name_in(allocations, event.detail);
    case EventKind::advice:
      return name_in(advice, event.detail);
    default:
      return {};
  }
}

}  // namespace wherry::tool
