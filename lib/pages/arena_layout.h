// At which address each page of the arena is, in every process alike.
//
// Most pages lie in a row from the arena's base on. The last ones stand in for memory that has its
// addresses from elsewhere, the variables of modules: a stretch of pages at such an address.
// Everything but addresses is the same for both. Where those pages would be in the row nobody may
// access anything. The very last page is nobody's.
//
// An address and its page agree in their place within a block of 2 MiB, so that blocks and regions
// are aligned everywhere.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/page.h"

namespace wherry::impl {

// A stretch of pages that lies at `address`; its blocks are of no other one.
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

  // The pages of the last `placed_bytes` of `bytes` (multiples of 2 MiB) are not in the row.
  ArenaLayout(std::uintptr_t base, std::size_t bytes, std::size_t placed_bytes)
      : base_(base), bytes_(bytes), row_bytes_(bytes - placed_bytes) {}
  // As it is now.
  ArenaLayout(const ArenaLayout& other);

  std::uintptr_t base() const { return base_; }
  // Of all pages, and of those in the row.
  std::size_t bytes() const { return bytes_; }
  std::size_t row_bytes() const { return row_bytes_; }

  // Both any thread, also in a signal handler.
  // The page that contains the address; nothing: none does.
  std::optional<std::uint64_t> page_of(std::uintptr_t address) const {
    if (address >= base_ && address - base_ < row_bytes_) return (address - base_) / page_size;
    const PlacedPages* placed =
        find_placed([&](const PlacedPages& one) { return one.contains(address); });
    if (placed == nullptr) return std::nullopt;
    return placed->pages.first + (address - placed->address) / page_size;
  }
  // Requires: the page is in the row, or in a block of a stretch.
  std::uintptr_t address_of(std::uint64_t page) const;
  // Of any page; nothing: it has no address yet.
  std::optional<std::uintptr_t> find_address_of(std::uint64_t page) const;

  // Calls f(address, bytes) for each run of addresses that the pages of the span have; stops at its
  // first error, and returns it.
  template <typename F>
  int for_each_part(PageSpan span, F f) const {
    const PageSpan in_row = intersect(span, {0, row_bytes_ / page_size});
    if (!in_row.empty())
      if (const int error = f(base_ + in_row.offset(), in_row.bytes())) return error;
    if (in_row.count == span.count) return 0;
    return for_each_placed([&](const PlacedPages& placed) {
      const PageSpan part = intersect(span, placed.pages);
      if (part.empty()) return 0;
      return f(placed.address + (part.first - placed.pages.first) * page_size, part.bytes());
    });
  }
  // Calls f(placed) for each stretch that there is now; stops at its first error, and returns it.
  template <typename F>
  int for_each_placed(F f) const {
    const unsigned count = count_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; ++i)
      if (const int error = f(placed_[i])) return error;
    return 0;
  }

  // Both by one thread at a time.
  // Which pages could lie at [address, address + bytes), whole pages; nothing: no more are left.
  std::optional<PlacedPages> find_room(std::uintptr_t address, std::size_t bytes) const;
  // From now on they do. For ever.
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
  std::array<PlacedPages, placed_max> placed_;  // in the order of their pages
  std::atomic<unsigned> count_{0};  // of those that hold still; stored (release) after them
};

}  // namespace wherry::impl
