#include "os/memory/page_table.h"

#include <fcntl.h>

#include <string>

#include "os/missing.h"

namespace wherry::impl {

PageTable::PageTable(pid_t process)
    : pagemap_(::open(process == 0 ? "/proc/self/pagemap"
                                   : ("/proc/" + std::to_string(process) + "/pagemap").c_str(),
                      O_RDONLY | O_CLOEXEC)) {}

std::optional<PageTable::Entries> PageTable::entries_of(std::uintptr_t start) const {
  constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
  page_region found{};
  pm_scan_arg request{};
  request.size = sizeof request;
  request.start = start;
  request.end = start + huge_page;
  request.vec = reinterpret_cast<std::uintptr_t>(&found);
  request.vec_len = 1;
  request.category_mask = PAGE_IS_PRESENT;
  request.return_mask = PAGE_IS_PRESENT | PAGE_IS_HUGE;
  const int regions = ::ioctl(pagemap_.get(), PAGEMAP_SCAN, &request);
  if (regions < 0) return std::nullopt;
  if (regions != 1 || found.start != start || found.end != start + huge_page)
    return Entries::incomplete;
  return (found.categories & PAGE_IS_HUGE) != 0 ? Entries::huge : Entries::small;
}

}  // namespace wherry::impl
