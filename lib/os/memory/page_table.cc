#include "os/memory/page_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/page.h"
#include "os/kernel_abi.h"

namespace wherry::impl {

PageTable::PageTable(pid_t process)
    : pagemap_(::open(process == 0 ? "/proc/self/pagemap"
                                   : ("/proc/" + std::to_string(process) + "/pagemap").c_str(),
                      O_RDONLY | O_CLOEXEC)) {}

std::optional<PageTable::Entries> PageTable::entries_of(std::uintptr_t start) const {
  constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
  abi::PageRegion found{};
  abi::PagemapScan request{};
  request.size = sizeof request;
  request.start = start;
  request.end = start + huge_page;
  request.vec = reinterpret_cast<std::uintptr_t>(&found);
  request.vec_len = 1;
  request.category_mask = abi::page_is_present;
  request.return_mask = abi::page_is_present | abi::page_is_huge;
  const int regions = ::ioctl(pagemap_.get(), abi::pagemap_scan, &request);
  if (regions < 0) return std::nullopt;
  if (regions != 1 || found.start != start || found.end != start + huge_page)
    return Entries::incomplete;
  return (found.categories & abi::page_is_huge) != 0 ? Entries::huge : Entries::small;
}

std::optional<std::uint64_t> PageTable::entry_of(std::uintptr_t page) const {
  std::uint64_t entry = 0;
  const auto place = static_cast<off_t>(page / page_size * sizeof entry);
  const ssize_t got = ::pread(pagemap_.get(), &entry, sizeof entry, place);
  return got == sizeof entry ? std::optional(entry) : std::nullopt;
}

std::optional<bool> PageTable::is_mapped(std::uintptr_t page) const {
  const auto entry = entry_of(page);
  if (!entry) return std::nullopt;
  return (*entry & abi::entry_is_present) != 0;
}

}  // namespace wherry::impl
