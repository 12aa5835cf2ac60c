#include "memory/page_owners.h"

namespace wherry::impl {
namespace {

using Byte = std::atomic<std::uint8_t>;
static_assert(sizeof(Byte) == 1 && Byte::is_always_lock_free);

constexpr std::uint8_t nobody = 0;
constexpr std::uint8_t everybody = 1;     // managed memory
constexpr std::uint8_t first_device = 2;  // memory of a device's own
constexpr std::uint8_t owner_bits = 0x7f;
constexpr std::uint8_t begins = 0x80;  // an allocation's first page

constexpr std::uint8_t own_memory_of(Processor p) {
  return p.is_host() ? everybody : static_cast<std::uint8_t>(first_device + p.ordinal());
}

}  // namespace

std::uint64_t PageOwnersView::count_accessible(PageSpan span, Processor by) const {
  const std::uint8_t own = own_memory_of(by);
  for (std::uint64_t count = 0; count < span.count; ++count) {
    const std::uint8_t owner =
        bytes[span.first + count].load(std::memory_order_relaxed) & owner_bits;
    if (owner != everybody && owner != own) return count;
  }
  return span.count;
}

bool PageOwnersView::are_of_one_allocation(PageSpan span) const {
  for (std::uint64_t page = span.first + 1; page < span.end(); ++page)
    if ((bytes[page].load(std::memory_order_relaxed) & begins) != 0) return false;
  return true;
}

PageOwners::PageOwners(std::size_t arena_bytes)
    : memory_("wherry-page-owners", arena_bytes / page_size),
      bytes_(static_cast<Byte*>(memory_.data())) {}

void PageOwners::allocated(const Allocation& allocation) {
  const PageSpan pages = allocation.pages();
  const std::uint8_t owner = own_memory_of(allocation.owner.device.value_or(Processor::host()));
  for (std::uint64_t page = pages.first; page < pages.end(); ++page) {
    const std::uint8_t mark = page == pages.first ? begins : nobody;
    bytes_[page].store(owner | mark, std::memory_order_relaxed);
  }
}

void PageOwners::freed(const Allocation& allocation) {
  const PageSpan pages = allocation.pages();
  for (std::uint64_t page = pages.first; page < pages.end(); ++page)
    bytes_[page].store(nobody, std::memory_order_relaxed);
}

}  // namespace wherry::impl
