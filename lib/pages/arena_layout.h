// Maps the arena's page numbers to addresses. The mapping is the same in every process.
//
// Most pages lie in a row from the arena's base on. The last pages stand for memory with addresses
// outside of that row, the variables of modules: each stretch of such pages is placed at a
// variable's address. Only addresses differ between the two; all other code treats them alike. The
// addresses that the placed pages would have in the row are inaccessible. The very last page is
// never used.
//
// A page and its address have the same offset within a 2 MiB block, so that blocks and regions are
// aligned everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/page.h"

namespace wherry::impl {

// A stretch of pages that is placed at `address`. It shares no block with another stretch.
struct PlacedPages {
  PageSpan pages;
  std::uintptr_t address = 0;

  bool contains(std::uintptr_t other) const {
    return other >= address && other - address < pages.bytes();
  }
};

class ArenaLayout {
 public:
  static constexpr unsigned placed_max = 256;

  // The last `placed_bytes` of `bytes` are reserved for placed pages. Requires: both are multiples
  // of 2 MiB.
  ArenaLayout(std::uintptr_t base, std::size_t bytes, std::size_t placed_bytes)
      : base_(base), bytes_(bytes), row_bytes_(bytes - placed_bytes) {}
  // Copies the current state.
  ArenaLayout(const ArenaLayout& other);

  std::uintptr_t base() const { return base_; }
  // bytes(): the size of all pages. row_bytes(): the size of the pages in the row.
  std::size_t bytes() const { return bytes_; }
  std::size_t row_bytes() const { return row_bytes_; }

  // Whether the arena may have a page there: true for every address if pages are placed. Faster
  // than page_of(). Any thread, also in a signal handler.
  bool may_contain(std::uintptr_t address) const {
    return address - base_ < row_bytes_ || count_.load(std::memory_order_acquire) != 0;
  }
  // page_of() and address_of(): any thread, also in a signal handler.
  // Returns the page that contains the address, or nullopt if the arena has no page there.
  std::optional<PageIndex> page_of(std::uintptr_t address) const {
    if (address >= base_ && address - base_ < row_bytes_) return page_at_offset(address - base_);
    const PlacedPages* placed =
        find_placed([&](const PlacedPages& one) { return one.contains(address); });
    if (placed == nullptr) return std::nullopt;
    return placed->pages.first + (address - placed->address) / page_size;
  }
  // Returns the page's address. Requires: the page is in the row, or in a block of a placed
  // stretch.
  std::uintptr_t address_of(PageIndex page) const;
  // Returns the address of any page, or nullopt if the page has no address yet.
  std::optional<std::uintptr_t> find_address_of(PageIndex page) const;

  // Calls f(address, bytes) for each run of consecutive addresses of the span's pages. Stops at f's
  // first error and returns it; otherwise returns 0.
  template <typename F>
  int for_each_address_range(PageSpan span, F f) const {
    const PageSpan in_row = intersect(span, {{0}, row_bytes_ / page_size});
    if (!in_row.empty())
      if (const int error = f(base_ + in_row.offset(), in_row.bytes())) return error;
    if (in_row.count == span.count) return 0;
    return for_each_placed([&](const PlacedPages& placed) {
      const PageSpan part = intersect(span, placed.pages);
      if (part.empty()) return 0;
      return f(placed.address + (part.first - placed.pages.first) * page_size, part.bytes());
    });
  }
  // Calls f(placed) for each placed stretch that exists now. Stops at f's first error and returns
  // it; otherwise returns 0.
  template <typename F>
  int for_each_placed(F f) const {
    const unsigned count = count_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; ++i)
      if (const int error = f(placed_[i])) return error;
    return 0;
  }

  // find_place() and place(): one thread at a time.
  // Chooses pages for [address, address + bytes), which is whole pages. Returns nullopt if too few
  // pages or entries are left.
  std::optional<PlacedPages> find_place(std::uintptr_t address, std::size_t bytes) const;
  // Places the chosen pages at that address, permanently.
  void place(const PlacedPages& placed);

 private:
  template <typename Matches>
  const PlacedPages* find_placed(Matches matches) const {
    const unsigned count = count_.load(std::memory_order_acquire);
    const auto end = placed_.begin() + count;
    const auto found = std::find_if(placed_.begin(), end, matches);
    return found == end ? nullptr : &*found;
  }

  const std::uintptr_t base_;
  const std::size_t bytes_;
  const std::size_t row_bytes_;
  std::array<PlacedPages, placed_max> placed_;  // ordered by page number
  // Number of valid entries of placed_, which no longer change. Stored with release after the
  // entry; pairs with the acquire loads.
  std::atomic<unsigned> count_{0};
};

}  // namespace wherry::impl
