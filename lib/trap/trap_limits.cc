#include "trap/trap_limits.h"

namespace wherry::impl {

bool permits_huge_pages(UffdAccess access) {
  return access != UffdAccess::none;
}

std::vector<std::string> limits_of(const TrapChoice& choice) {
  std::vector<std::string> limits;
  if (!serves_system_calls(choice.access))
    limits.push_back(
        "serve system calls that reach absent managed memory: they fail with EFAULT; "
        "wherryTouchPages() "
        "first");
  if (!permits_huge_pages(choice.access))
    limits.push_back("use huge pages, or map 2 MiB by one entry");
  if (choice.access == UffdAccess::none) {
    limits.push_back(
        "change what is mapped without a system call for each run of pages, in a device through "
        "its agent");
    limits.push_back(
        "keep apart more runs of pages than the process may have mappings (vm.max_map_count)");
  }
  return limits;
}

}  // namespace wherry::impl
