#include "pages/stripes.h"

#include <map>
#include <set>

#include "support/catch.h"

namespace wherry::test::stripes_test {

using namespace wherry::impl;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;
const Stripes of_16{16, 896 * gib};

PageSpan span(std::uint64_t offset, std::uint64_t bytes) {
  return {page_at_offset(offset), bytes / page_size};
}

// How many bytes of the range each file has.
std::map<unsigned, std::uint64_t> shares(const Stripes& stripes, PageSpan pages) {
  std::map<unsigned, std::uint64_t> shares;
  PageIndex next = pages.first;
  CHECK(stripes.for_each(pages, [&](unsigned file, PageSpan part) {
    CHECK(part.first == next);
    CHECK(stripes.file_of(part.offset()) == file);
    CHECK(stripes.file_of(offset_of(part.end() - 1)) == file);
    shares[file] += part.bytes();
    next = part.end();
    return 0;
  }) == 0);
  CHECK(next == pages.end());
  return shares;
}

}  // namespace

TEST_CASE("a pool of one file has one stripe") {
  const Stripes one;
  CHECK(one.files() == 1);
  CHECK(shares(one, span(0, 100 * gib)) == std::map<unsigned, std::uint64_t>{{0, 100 * gib}});
  CHECK(one.are_in_first_file(span(0, gib)));
}

TEST_CASE("an allocation at an offset of about its size is divided evenly among the files") {
  for (const std::uint64_t bytes : {32 * mib, 128 * mib, gib, 64 * gib}) {
    CAPTURE(bytes);
    const auto parts = shares(of_16, span(bytes, bytes));
    CHECK(parts.size() == 16);
    for (const auto& [file, share] : parts) CHECK(share == bytes / 16);
  }
}

TEST_CASE("a stripe consists of whole blocks, and there are few of them") {
  std::uint64_t stripes = 0;
  for (std::uint64_t offset = 0; offset < of_16.bytes(); offset = of_16.end_of(offset)) {
    REQUIRE(of_16.end_of(offset) % block_size == 0);
    REQUIRE(of_16.end_of(offset) > offset);
    ++stripes;
  }
  CHECK(stripes < 300);
}

TEST_CASE("what lies beyond the striped part belongs to the first file") {
  CHECK(of_16.file_of(896 * gib - 1) != 0);
  CHECK(shares(of_16, span(896 * gib, 100 * gib)).size() == 1);
  CHECK(of_16.are_in_first_file(span(896 * gib, 100 * gib)));
  CHECK_FALSE(of_16.are_in_first_file(span(0, block_size)));
}

TEST_CASE("for_each() stops at the first error and returns it") {
  int calls = 0;
  CHECK(of_16.for_each(span(0, gib), [&](unsigned, PageSpan) { return ++calls == 3 ? 5 : 0; }) ==
        5);
  CHECK(calls == 3);
}

TEST_CASE("the striped order visits each block once, and neighbours belong to different files") {
  const BlockIndex first{gib / block_size + 5};
  const BlockIndex end{3 * gib / block_size - 7};
  StripedOrder order(of_16, first, end);
  std::set<BlockIndex> visited;
  unsigned same_file = 0;
  unsigned last = of_16.files();
  while (!order.empty()) {
    const BlockIndex block = order.front();
    const unsigned file = of_16.file_of(block_span(block).offset());
    same_file += file == last;
    last = file;
    CHECK(visited.insert(block).second);
    order.pop();
  }
  CHECK(visited.size() == end.value - first.value);
  CHECK(*visited.begin() == first);
  CHECK(visited.rbegin()->next() == end);
  // Successive blocks are in the same file only at the ends of incomplete stripes.
  CHECK(same_file < 50);
}

TEST_CASE("with one file the striped order is the order of addresses") {
  StripedOrder order(Stripes{}, {3}, {6});
  for (std::uint64_t block = 3; block < 6; ++block) {
    REQUIRE_FALSE(order.empty());
    CHECK(order.front() == BlockIndex{block});
    order.pop();
  }
  CHECK(order.empty());
}

}  // namespace wherry::test::stripes_test
