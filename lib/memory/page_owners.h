// For whom each page of the arena is, in memory that device processes see too, and cannot write to:
// one byte for each block that is of one allocation, else one for each page, so that an allocation
// of 100 GiB costs as little as its blocks. Read without a lock, also in signal handlers. What an
// allocation is beyond that only the host's AddressSpace knows.
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

// The bytes, in any process that sees the memory. Any thread.
struct PageOwnersView {
  const std::atomic<std::uint8_t>* bytes = nullptr;
  std::size_t pages =
      0;  // of the arena; the bytes of its blocks follow, and who is in which audience

  // Of all of that.
  std::size_t size() const { return audiences_at() + sizeof(Audiences); }
  // How many pages from the first of the span on belong to live allocations that the processor may
  // touch.
  std::uint64_t count_accessible(PageSpan span, Processor by) const;
  // Whether all pages of the span, which have owners, are of one allocation.
  bool are_of_one_allocation(PageSpan span) const;

  const Audiences& audiences() const {
    return *reinterpret_cast<const Audiences*>(bytes + audiences_at());
  }

 private:
  friend class PageOwners;

  std::size_t audiences_at() const {
    return round_up(pages + round_up(pages, pages_per_block) / pages_per_block, alignof(Audiences));
  }
  std::uint8_t of(std::uint64_t page) const;
};

class PageOwners {
 public:
  // Throws std::system_error.
  explicit PageOwners(std::size_t arena_bytes);

  // As device processes see it.
  PageOwnersView view() const {
    return {static_cast<const std::atomic<std::uint8_t>*>(memory_.shown()), pages_};
  }
  Audiences& audiences() { return audiences_; }

  // Any thread, but each page by one at a time.
  void allocated(const Allocation& allocation);
  void freed(const Allocation& allocation);

 private:
  // Says it of each page, and of the first one `first`, too.
  void mark(PageSpan pages, std::uint8_t each, std::uint8_t first);

  const std::size_t pages_;
  const PublishedMemory memory_;
  std::atomic<std::uint8_t>* const bytes_;
  Audiences& audiences_;
};

}  // namespace wherry::impl
