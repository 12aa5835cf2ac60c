// Pages as all layers address them: page numbers and spans in the arena, and 2 MiB blocks. All
// spans are half-open. A page number counts 4 KiB pages from the arena's base.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace wherry::impl {

inline constexpr std::size_t page_size = 4096;
inline constexpr std::size_t pages_per_block = 512;
inline constexpr std::size_t block_size = page_size * pages_per_block;
inline constexpr std::size_t pages_per_region = 16;  // a naturally aligned 64 KiB region

// `unit` must be a power of two.
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value & ~(unit - 1);
}
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

// The number of a page of the arena. A type of its own, so that it cannot be mistaken for a number
// of pages, for a page's number within its block, or for a byte offset.
struct PageIndex {
  std::uint64_t value = 0;

  constexpr PageIndex& operator++() {
    ++value;
    return *this;
  }
  constexpr PageIndex& operator+=(std::uint64_t pages) {
    value += pages;
    return *this;
  }
  friend constexpr PageIndex operator+(PageIndex page, std::uint64_t pages) {
    return {page.value + pages};
  }
  friend constexpr PageIndex operator-(PageIndex page, std::uint64_t pages) {
    return {page.value - pages};
  }
  friend constexpr std::uint64_t operator-(PageIndex page, PageIndex earlier) {
    return page.value - earlier.value;
  }
  constexpr auto operator<=>(const PageIndex&) const = default;
};

// The page that contains the byte at `offset` from the arena's base, and the offset of its first
// byte.
constexpr PageIndex page_at_offset(std::uint64_t offset) {
  return {offset / page_size};
}
constexpr std::uint64_t offset_of(PageIndex page) {
  return page.value * page_size;
}

// A half-open run of pages of the arena.
struct PageSpan {
  PageIndex first;
  std::uint64_t count = 0;

  constexpr PageIndex end() const { return first + count; }
  constexpr std::uint64_t bytes() const { return count * page_size; }
  constexpr std::uint64_t offset() const { return offset_of(first); }
  constexpr bool empty() const { return count == 0; }
  constexpr bool contains(PageIndex page) const { return page >= first && page < end(); }
  constexpr bool operator==(const PageSpan&) const = default;
};

constexpr PageSpan intersect(PageSpan a, PageSpan b) {
  const PageIndex first = a.first > b.first ? a.first : b.first;
  const PageIndex end = a.end() < b.end() ? a.end() : b.end();
  return end > first ? PageSpan{first, end - first} : PageSpan{first, 0};
}
// The smallest span that contains `span` and consists of naturally aligned groups of `group` pages
// (a power of two).
constexpr PageSpan aligned_around(PageSpan span, std::uint64_t group) {
  const std::uint64_t first = round_down(span.first.value, group);
  return {{first}, round_up(span.end().value, group) - first};
}

// The index of a 2 MiB block of the arena. A type of its own, so that it cannot be mistaken for a
// page number.
struct BlockIndex {
  std::uint64_t value = 0;

  constexpr BlockIndex next() const { return {value + 1}; }
  constexpr auto operator<=>(const BlockIndex&) const = default;
};

constexpr BlockIndex block_of(PageIndex page) {
  return {page.value / pages_per_block};
}
constexpr PageSpan block_span(BlockIndex block) {
  return {{block.value * pages_per_block}, pages_per_block};
}
// The page's number within its block.
constexpr unsigned page_in_block(PageIndex page) {
  return static_cast<unsigned>(page.value % pages_per_block);
}

}  // namespace wherry::impl
