#include "os/memory/memory_locks.h"

#include <sys/mman.h>

#include <string>
#include <string_view>

#include "os/memory/address_map.h"

namespace wherry::impl {
namespace {

// Whether this is a mapping of a library file that is mostly holes: on the library's tmpfs, or a
// memfd.
bool is_of_the_library(const MappedRange& mapping) {
  const auto begins = [&](std::string_view start) { return mapping.name.starts_with(start); };
  return mapping.shared && (begins("/wherry-pool-") || begins("/memfd:wherry-pool-") ||
                            begins("/memfd:wherry-page-owners") || begins("/memfd:wherry-status"));
}

template <typename Visit>
void for_each_mapping(const Visit& visit) {
  const std::string text = read_address_map();
  std::string_view rest = text;
  while (const auto mapping = next_mapping(rest)) visit(*mapping);
}

}  // namespace

int lock_all_but_the_librarys(int flags, int (*next)(int)) {
  if ((flags & MCL_CURRENT) == 0) return next(flags);
  bool has_ours = false;
  for_each_mapping(
      [&](const MappedRange& mapping) { has_ours = has_ours || is_of_the_library(mapping); });
  if (!has_ours) return next(flags);

  // MCL_ONFAULT first: it populates nothing, and it reports the errors that the program expects.
  if (const int result = next(flags | MCL_ONFAULT); result != 0) return result;
  for_each_mapping([&](const MappedRange& mapping) {
    const void* start = reinterpret_cast<const void*>(mapping.range.start);
    if (is_of_the_library(mapping))
      (void)::munlock(start, mapping.range.size());
    else if ((flags & MCL_ONFAULT) == 0 && mapping.accessible())
      (void)::mlock(start,
                    // ignored: mlockall() also skips memory that cannot be populated
                    mapping.range.size());
  });
  const bool populates_later = (flags & MCL_FUTURE) != 0 && (flags & MCL_ONFAULT) == 0;
  return populates_later ? next(MCL_FUTURE) : 0;
}

}  // namespace wherry::impl
