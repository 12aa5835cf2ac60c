#include "trap_limits.h"

namespace wherry::tool {

std::vector<std::string> limits_of(const impl::TrapChoice& choice) {
  const impl::TrapTraits& traits = traits_of(choice.mode.kind);
  std::vector<std::string> limits;
  if (!serves_system_calls(choice.mode))
    limits.push_back(
        "serve system calls that reach absent managed memory: they fail with EFAULT; "
        "wherryTouchPages() first, or preload libwherry_io, as wherry run does");
  if (!traits.opens_arena) {
    limits.push_back(
        "change what is mapped without a system call for each run of pages, in a device through "
        "its agent");
    limits.push_back(
        "keep apart more runs of pages than the process may have mappings (vm.max_map_count)");
  }
  return limits;
}

}  // namespace wherry::tool
