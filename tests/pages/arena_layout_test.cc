#include "pages/arena_layout.h"

#include <vector>

#include "support/catch.h"

namespace wherry::test::arena_layout_test {

using namespace wherry::impl;

namespace {

constexpr std::uintptr_t base = std::uintptr_t{1} << 40;
constexpr std::size_t bytes = 64 * block_size;
constexpr std::size_t placed_bytes = 16 * block_size;
constexpr std::uint64_t row_pages = (bytes - placed_bytes) / page_size;
constexpr std::uintptr_t elsewhere = 0x55'5555'0000;

struct Bytes {
  std::uintptr_t address;
  std::size_t bytes;
  bool operator==(const Bytes&) const = default;
};

std::vector<Bytes> ranges_of(const ArenaLayout& layout, PageSpan span) {
  std::vector<Bytes> ranges;
  CHECK(layout.for_each_address_range(span, [&](std::uintptr_t address, std::size_t size) {
    ranges.push_back({address, size});
    return 0;
  }) == 0);
  return ranges;
}

PlacedPages place(ArenaLayout& layout, std::uintptr_t address, std::uint64_t pages) {
  const auto placed = layout.find_place(address, pages * page_size);
  REQUIRE(placed);
  layout.place(*placed);
  return *placed;
}

}  // namespace

TEST_CASE("pages are contiguous, and addresses beyond the last one belong to no allocation") {
  const ArenaLayout layout(base, bytes, placed_bytes);
  CHECK(layout.page_of(base) == PageIndex{0});
  CHECK(layout.page_of(base + 3 * page_size + 5) == PageIndex{3});
  CHECK(layout.page_of(base + layout.row_bytes() - 1) == PageIndex{row_pages - 1});
  CHECK_FALSE(layout.page_of(base + layout.row_bytes()));
  CHECK_FALSE(layout.page_of(base - 1));
  CHECK_FALSE(layout.page_of(elsewhere));
  CHECK(layout.address_of({7}) == base + 7 * page_size);
}

TEST_CASE("placed pages have addresses of their own, with the same offsets inside a block") {
  ArenaLayout layout(base, bytes, placed_bytes);
  const PlacedPages one = place(layout, elsewhere, 700);
  const PlacedPages other = place(layout, elsewhere + 700 * page_size, 3);
  for (const PlacedPages& placed : {one, other}) {
    CHECK(placed.pages.first.value >= row_pages);
    CHECK(placed.pages.offset() % block_size == placed.address % block_size);
    for (std::uint64_t i = 0; i < placed.pages.count; ++i) {
      const std::uintptr_t address = placed.address + i * page_size;
      REQUIRE(layout.page_of(address + 17) == placed.pages.first + i);
      REQUIRE(layout.address_of(placed.pages.first + i) == address);
    }
  }
  // No block contains pages of both, even if their addresses are adjacent.
  CHECK(block_of(one.pages.end() - 1) < block_of(other.pages.first));
  CHECK_FALSE(layout.page_of(elsewhere - 1));
  CHECK_FALSE(layout.page_of(elsewhere + 703 * page_size));
  // A block has a start address, even if other memory is there.
  CHECK(layout.address_of(block_span(block_of(one.pages.first)).first) ==
        round_down(elsewhere, block_size));
}

TEST_CASE("a span has the addresses of its pages and no others") {
  ArenaLayout layout(base, bytes, placed_bytes);
  const PlacedPages placed = place(layout, elsewhere, 5);
  CHECK(ranges_of(layout, {{2}, 4}) == std::vector<Bytes>{{base + 2 * page_size, 4 * page_size}});
  CHECK(ranges_of(layout, {placed.pages.first + 1, 2}) ==
        std::vector<Bytes>{{elsewhere + page_size, 2 * page_size}});
  CHECK(ranges_of(layout, block_span(block_of(placed.pages.first))) ==
        std::vector<Bytes>{{elsewhere, 5 * page_size}});
  CHECK(ranges_of(layout, {{0}, bytes / page_size}) ==
        std::vector<Bytes>{{base, layout.row_bytes()}, {elsewhere, 5 * page_size}});
  int calls = 0;
  CHECK(layout.for_each_address_range({{0}, bytes / page_size},
                                      [&](std::uintptr_t, std::size_t) { return ++calls; }) == 1);
  CHECK(calls == 1);
}

TEST_CASE("a copy has the same placed pages, and placing fails before the last page of all") {
  ArenaLayout layout(base, bytes, placed_bytes);
  place(layout, elsewhere, 1);
  const ArenaLayout copy(layout);
  place(layout, elsewhere + block_size, 1);
  CHECK(copy.page_of(elsewhere));
  CHECK_FALSE(copy.page_of(elsewhere + block_size));
  CHECK_FALSE(layout.find_place(elsewhere + 2 * block_size, placed_bytes));
  CHECK(layout.find_place(base / 2, 13 * block_size));
  CHECK_FALSE(layout.find_place(base / 2, 14 * block_size));
}

}  // namespace wherry::test::arena_layout_test
