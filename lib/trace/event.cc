#include "trace/event.h"

#include <array>
#include <cstddef>

namespace wherry::impl {
namespace {

constexpr std::array<std::string_view, event_causes> causes{
    "none",     "fault",      "user prefetch", "speculative prefetch",
    "eviction", "thrash pin", "advice",        "copy",
    "creation", "release",    "sample"};

}  // namespace

std::string_view to_string(EventCause cause) {
  const std::size_t code = code_of(cause);
  return code < causes.size() ? causes[code] : "unknown";
}

}  // namespace wherry::impl
