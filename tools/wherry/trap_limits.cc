#include "trap_limits.h"

namespace wherry::tool {

std::vector<std::string> limits_of(const impl::TrapChoice& choice) {
  std::vector<std::string> limits;
  if (!serves_system_calls(choice.access))
    limits.push_back(
        "serve system calls that reach absent managed memory: they fail with EFAULT; "
        "wherryTouchPages() "
        "first");
  if (!permits_huge_pages(choice.access))
    limits.push_back("use huge pages, or map 2 MiB by one entry");
  if (choice.access == impl::UffdAccess::none) {
    limits.push_back(
        "change what is mapped without a system call for each run of pages, in a device through "
        "its agent");
    limits.push_back(
        "keep apart more runs of pages than the process may have mappings (vm.max_map_count)");
  }
  return limits;
}

}  // namespace wherry::tool
