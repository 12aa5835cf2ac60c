#include "memory/page_owners.h"

#include <new>

namespace wherry::impl {
namespace {

using Byte = std::atomic<std::uint8_t>;
static_assert(sizeof(Byte) == 1 && Byte::is_always_lock_free);

constexpr std::uint8_t no_owner = 0;
constexpr std::uint8_t first_audience = 1;
constexpr std::uint8_t audience_bits = 0x7f;
constexpr std::uint8_t begins = 0x80;  // the first page of an allocation
static_assert(first_audience + Audiences::end - 1 <= audience_bits);

}  // namespace

std::uint64_t PageOwnersView::count_accessible(PageSpan span, Processor by) const {
  for (std::uint64_t count = 0; count < span.count; ++count) {
    const std::uint8_t owner = of(span.first + count) & audience_bits;
    if (owner == no_owner || !audiences().admits(owner - first_audience, by)) return count;
  }
  return span.count;
}

bool PageOwnersView::are_of_one_allocation(PageSpan span) const {
  for (PageIndex page = span.first + 1; page < span.end(); ++page)
    if ((of(page) & begins) != 0) return false;
  return true;
}

std::uint8_t PageOwnersView::of(PageIndex page) const {
  const std::uint8_t block = bytes[pages + block_of(page).value].load(std::memory_order_relaxed);
  if (block == no_owner) return bytes[page.value].load(std::memory_order_relaxed);
  return page_in_block(page) == 0 ? block : block & audience_bits;
}

PageOwners::PageOwners(std::size_t arena_bytes)
    : pages_(arena_bytes / page_size),
      memory_("wherry-page-owners", PageOwnersView{nullptr, pages_}.size()),
      bytes_(static_cast<Byte*>(memory_.data())),
      audiences_(*new (bytes_ + view().audiences_at()) Audiences) {}

void PageOwners::mark(PageSpan pages, std::uint8_t each, std::uint8_t first) {
  for (PageIndex page = pages.first; page < pages.end();) {
    const std::uint8_t value = page == pages.first ? each | first : each;
    const bool whole = page_in_block(page) == 0 && pages.end() - page >= pages_per_block;
    const std::uint64_t place = whole ? pages_ + block_of(page).value : page.value;
    bytes_[place].store(value, std::memory_order_relaxed);
    page += whole ? pages_per_block : 1;
  }
}

void PageOwners::allocated(const Allocation& allocation) {
  mark(allocation.pages(), static_cast<std::uint8_t>(first_audience + allocation.owner.audience()),
       begins);
}

void PageOwners::freed(const Allocation& allocation) {
  mark(allocation.pages(), no_owner, no_owner);
}

}  // namespace wherry::impl
