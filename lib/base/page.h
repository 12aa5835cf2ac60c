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

// `unit`: a power of two.
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value & ~(unit - 1);
}
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

// A half-open run of pages of the arena.
struct PageSpan {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  constexpr std::uint64_t end() const { return first + count; }
  constexpr std::uint64_t bytes() const { return count * page_size; }
  constexpr std::uint64_t offset() const { return first * page_size; }
  constexpr bool empty() const { return count == 0; }
  constexpr bool contains(std::uint64_t page) const { return page >= first && page < end(); }
  constexpr bool operator==(const PageSpan&) const = default;
};

constexpr PageSpan intersect(PageSpan a, PageSpan b) {
  const std::uint64_t first = a.first > b.first ? a.first : b.first;
  const std::uint64_t end = a.end() < b.end() ? a.end() : b.end();
  return end > first ? PageSpan{first, end - first} : PageSpan{first, 0};
}

// The index of a 2 MiB block of the arena. A type of its own, so that it cannot be mistaken for a
// page number.
struct BlockIndex {
  std::uint64_t value = 0;

  constexpr BlockIndex next() const { return {value + 1}; }
  constexpr auto operator<=>(const BlockIndex&) const = default;
};

constexpr BlockIndex block_of(std::uint64_t page) {
  return {page / pages_per_block};
}
constexpr PageSpan block_span(BlockIndex block) {
  return {block.value * pages_per_block, pages_per_block};
}

}  // namespace wherry::impl
