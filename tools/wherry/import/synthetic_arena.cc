#include "import/synthetic_arena.h"

#include <algorithm>
#include <tuple>

namespace wherry::importing {

SyntheticArena::SyntheticArena(std::span<const Access> accesses) {
  for (const Access& access : accesses) {
    const SourcePages pages = pages_of(access);
    // A shortcut, because most accesses are near the one before.
    if (!ranges_.empty() && ranges_.back().space == access.space &&
        pages.first >= ranges_.back().first_page &&
        pages.end <= ranges_.back().first_page + ranges_.back().pages)
      continue;
    ranges_.push_back({access.space, pages.first, pages.end - pages.first, 0});
  }
  std::ranges::sort(ranges_, {},
                    [](const Range& range) { return std::tuple(range.space, range.first_page); });
  std::vector<Range> merged;
  for (const Range& next : ranges_) {
    Range* const last = merged.empty() ? nullptr : &merged.back();
    if (last == nullptr || last->space != next.space ||
        next.first_page >= last->first_page + last->pages + impl::pages_per_block)
      merged.push_back(next);
    else
      last->pages = std::max(last->pages, next.first_page + next.pages - last->first_page);
  }
  ranges_ = std::move(merged);
  place();
}

void SyntheticArena::place() {
  std::uint64_t end = base;
  const Range* last = nullptr;
  for (Range& range : ranges_) {
    const std::uint64_t gap = last == nullptr || last->space != range.space
                                  ? ~std::uint64_t{0}
                                  : range.first_page - (last->first_page + last->pages);
    const std::uint64_t in_block = range.first_page % impl::pages_per_block * impl::page_size;
    range.address = gap <= distance_max / impl::page_size
                        ? end + gap * impl::page_size
                        : impl::round_up(end, impl::block_size) + in_block;
    end = range.address + range.pages * impl::page_size;
    last = &range;
  }
  bytes_ = impl::round_up(end, impl::block_size) - base;
}

std::uint64_t SyntheticArena::address_of(const Access& access) const {
  const std::uint64_t page = pages_of(access).first;
  const auto after = std::ranges::upper_bound(
      ranges_, std::tuple(access.space, page), {},
      [](const Range& range) { return std::tuple(range.space, range.first_page); });
  const Range& range = *(after - 1);
  return range.address + (page - range.first_page) * impl::page_size +
         access.address % impl::page_size;
}

}  // namespace wherry::importing
