#include "base/page.h"

#include "support/catch.h"

namespace wherry::test::page_test {

using namespace wherry::impl;

TEST_CASE("the intersection of two spans holds exactly the pages of both", "[base]") {
  const PageSpan left{{10}, 10};
  for (std::uint64_t first = 0; first < 30; ++first) {
    for (std::uint64_t count = 0; count < 30; ++count) {
      const PageSpan right{{first}, count};
      const PageSpan both = intersect(left, right);
      for (PageIndex page; page < PageIndex{64}; ++page) {
        if (both.contains(page) != (left.contains(page) && right.contains(page))) {
          FAIL("page " << page.value << " of [10, 20) and [" << first << ", " << first + count
                       << ")");
        }
      }
    }
  }
}

TEST_CASE("every page lies in the span of its own block and of no other", "[base]") {
  for (const std::uint64_t number : {0ull, 511ull, 512ull, 1023ull, 123456789ull}) {
    const PageIndex page{number};
    CHECK(block_span(block_of(page)).contains(page));
    CHECK_FALSE(block_span(block_of(page).next()).contains(page));
  }
}

TEST_CASE("a page's block, place in the block, and offset name the same page", "[base]") {
  for (const std::uint64_t number : {0ull, 511ull, 512ull, 1023ull, 123456789ull}) {
    const PageIndex page{number};
    CHECK((block_span(block_of(page)).first + page_in_block(page) == page));
    CHECK((page_at_offset(offset_of(page)) == page));
    CHECK((page_at_offset(offset_of(page + 1) - 1) == page));
  }
}

TEST_CASE("the aligned span around a span grows only to whole groups", "[base]") {
  CHECK((aligned_around({{17}, 3}, 16) == PageSpan{{16}, 16}));
  CHECK((aligned_around({{15}, 2}, 16) == PageSpan{{0}, 32}));
  CHECK((aligned_around({{16}, 16}, 16) == PageSpan{{16}, 16}));
}

TEST_CASE("rounding keeps multiples and moves all other values to the next multiple", "[base]") {
  CHECK(round_up(0, page_size) == 0);
  CHECK(round_up(page_size, page_size) == page_size);
  CHECK(round_up(page_size + 1, page_size) == 2 * page_size);
  CHECK(round_down(2 * page_size - 1, page_size) == page_size);
}

}  // namespace wherry::test::page_test
