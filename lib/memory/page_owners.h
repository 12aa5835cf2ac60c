// A table that tells for each page of the arena which processors may access it. Device processes
// read the same memory and cannot write to it. A block that belongs to one allocation has one byte,
// other pages have one byte each, so an allocation of 100 GiB costs one store for each block. The
// table is read without a lock, also in signal handlers. All further facts about an allocation are
// known only to the host's AddressSpace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/page.h"
#include "base/processor.h"
#include "os/memory/published_memory.h"
#include "pages/address_space.h"
#include "pages/audiences.h"

namespace wherry::impl {

// The table, in any process that maps the memory. Any thread may call.
struct PageOwnersView {
  const std::atomic<std::uint8_t>* bytes = nullptr;
  // Pages of the arena. Their bytes are followed by the bytes of the blocks, then by the audiences.
  std::size_t pages = 0;

  // Size of the whole table in bytes.
  std::size_t size() const { return audiences_at() + sizeof(Audiences); }
  // How many pages, from the first of the span on, belong to live allocations that the processor
  // may access.
  std::uint64_t count_accessible(PageSpan span, Processor by) const;
  // Whether all pages of the span belong to one allocation. Requires: each belongs to some
  // allocation.
  bool are_of_one_allocation(PageSpan span) const;

  const Audiences& audiences() const {
    return *reinterpret_cast<const Audiences*>(bytes + audiences_at());
  }

 private:
  friend class PageOwners;

  std::size_t audiences_at() const {
    return round_up(pages + round_up(pages, pages_per_block) / pages_per_block, alignof(Audiences));
  }
  std::uint8_t of(PageIndex page) const;
};

class PageOwners {
 public:
  // Throws std::system_error.
  explicit PageOwners(std::size_t arena_bytes);

  // The table, as device processes map it.
  PageOwnersView view() const {
    return {static_cast<const std::atomic<std::uint8_t>*>(memory_.shown()), pages_};
  }
  Audiences& audiences() { return audiences_; }

  // Any thread may call, but only one at a time for a page.
  void allocated(const Allocation& allocation);
  void freed(const Allocation& allocation);

 private:
  // Stores `each` for every page, and also sets `first` for the first page.
  void mark(PageSpan pages, std::uint8_t each, std::uint8_t first);

  const std::size_t pages_;
  const PublishedMemory memory_;
  std::atomic<std::uint8_t>* const bytes_;
  Audiences& audiences_;
};

}  // namespace wherry::impl
