#include "pages/arena_layout.h"

#include "base/check.h"

namespace wherry::impl {
namespace {

PageSpan whole_blocks(PageSpan span) {
  return aligned_around(span, pages_per_block);
}

}  // namespace

ArenaLayout::ArenaLayout(const ArenaLayout& other)
    : base_(other.base_), bytes_(other.bytes_), row_bytes_(other.row_bytes_) {
  other.for_each_placed([this](const PlacedPages& placed) {
    place(placed);
    return 0;
  });
}

std::uintptr_t ArenaLayout::address_of(PageIndex page) const {
  const auto address = find_address_of(page);
  WHERRY_CHECK(address.has_value(), "page {} has no address", page.value);
  return *address;
}

std::optional<std::uintptr_t> ArenaLayout::find_address_of(PageIndex page) const {
  if (page < page_at_offset(row_bytes_)) return base_ + offset_of(page);
  const PlacedPages* placed =
      find_placed([&](const PlacedPages& one) { return whole_blocks(one.pages).contains(page); });
  if (placed == nullptr) return std::nullopt;
  return placed->address + (page - placed->pages.first) * page_size;
}

std::optional<PlacedPages> ArenaLayout::find_place(std::uintptr_t address,
                                                   std::size_t bytes) const {
  const unsigned count = count_.load(std::memory_order_relaxed);
  if (count == placed_max) return std::nullopt;
  const PageIndex block =
      count == 0 ? page_at_offset(row_bytes_) : whole_blocks(placed_[count - 1].pages).end();
  const PageSpan pages{block + address % block_size / page_size, bytes / page_size};
  // The very last page is never used.
  if (whole_blocks(pages).end() >= page_at_offset(bytes_)) return std::nullopt;
  return PlacedPages{pages, address};
}

void ArenaLayout::place(const PlacedPages& placed) {
  const unsigned count = count_.load(std::memory_order_relaxed);
  WHERRY_CHECK(count < placed_max, "there are {} placed stretches already", count);
  placed_[count] = placed;
  count_.store(count + 1, std::memory_order_release);
}

}  // namespace wherry::impl
