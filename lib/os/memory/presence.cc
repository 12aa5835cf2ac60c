#include "os/memory/presence.h"

#include <sys/mman.h>

#include "base/page.h"
#include "os/memory/touch.h"

namespace wherry::impl {

std::vector<AddressRange> absent_pages(AddressRange range) {
  std::vector<unsigned char> present(range.size() / page_size);
  std::vector<AddressRange> absent;
  if (::mincore(reinterpret_cast<void*>(range.start), range.size(), present.data()) != 0) return {};
  for (std::size_t i = 0; i < present.size(); ++i) {
    if ((present[i] & 1) != 0) continue;
    const std::uintptr_t page = range.start + i * page_size;
    if (!absent.empty() && absent.back().end == page)
      absent.back().end += page_size;
    else
      absent.push_back({page, page + page_size});
  }
  return absent;
}

int create_pages(AddressRange range) {
  return touch_pages(range.start, range.size(), Touch::to_write);
}

}  // namespace wherry::impl
