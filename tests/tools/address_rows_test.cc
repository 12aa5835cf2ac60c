// The rows of a picture of memory cover each used address once, however many there are.
#include "report/address_rows.h"

#include "support/catch.h"

namespace wherry::test::address_rows_test {

using namespace wherry::report;
using wherry::tool::RangeNames;

namespace {

constexpr std::uint64_t page = 4096;

std::vector<Extent> extents_of(std::initializer_list<Extent> ranges, std::size_t most = 100) {
  AddressExtents extents(page, 1000);
  for (const Extent& range : ranges) extents.add(range.begin, range.bytes());
  return extents.take(most);
}

}  // namespace

TEST_CASE("extents have whole pages, and neighbours are one") {
  CHECK(extents_of({{page + 5, page + 6}, {2 * page, 3 * page}, {9 * page, 10 * page}}) ==
        std::vector<Extent>{{page, 3 * page}, {9 * page, 10 * page}});
  CHECK(extents_of({{page, 9 * page}, {2 * page, 3 * page}}) ==
        std::vector<Extent>{{page, 9 * page}});
  CHECK(extents_of({}).empty());
}

TEST_CASE("too many extents become few that have all of their addresses") {
  AddressExtents extents(page, 8);
  for (std::uint64_t i = 0; i < 1000; ++i) extents.add((2 * i + 1) * page, page);
  const auto few = extents.take(8);
  REQUIRE_FALSE(few.empty());
  CHECK(few.size() <= 8);
  CHECK(few.front().begin <= page);
  CHECK(few.back().end >= 2000 * page);
}

TEST_CASE("the highest addresses are used without an overflow") {
  const auto extents = extents_of({{UINT64_MAX - 10, UINT64_MAX}, {0, 1}}, 1);
  REQUIRE(extents.size() == 1);
  CHECK(extents[0].begin == 0);
  CHECK(extents[0].end > UINT64_MAX - (std::uint64_t{1} << 63));
}

TEST_CASE("each address of an extent is in the row that has it, and no other address has one") {
  RangeNames names;
  names.set(12 * page, 30 * page, "a");
  const std::vector<Extent> extents{{10 * page, 100 * page}, {200 * page, 201 * page}};
  const AddressRows rows(extents, names, page, 20, 10);
  CHECK_FALSE(rows.find(9 * page));
  CHECK_FALSE(rows.find(100 * page));
  for (const Extent& extent : extents)
    for (std::uint64_t address = extent.begin; address < extent.end; address += page / 2) {
      const auto row = rows.find(address);
      REQUIRE(row);
      REQUIRE(row->number < rows.size());
      REQUIRE(row->extent == rows.extent_of(row->number));
      REQUIRE(row->extent.begin <= address);
      REQUIRE(address < row->extent.end);
    }
}

TEST_CASE("segments end where names do, and a small one has at least two rows") {
  RangeNames names;
  names.set(0, 1000 * page, "large");
  names.set(1000 * page, 2 * page, "small");
  const std::vector<Extent> extents{{0, 1010 * page}};
  const AddressRows rows(extents, names, page, 10, 10);
  REQUIRE(rows.segments().size() == 3);
  CHECK(rows.segments()[0].name == "large");
  CHECK(rows.segments()[1].name == "small");
  CHECK(rows.segments()[1].rows == 2);
  CHECK(rows.segments()[2].name.empty());
  CHECK(rows.size() >= 10);
  CHECK(rows.size() <= 10 + 2 * 3);
}

TEST_CASE("too many names do not divide extents, and the smallest extents are left out") {
  RangeNames names;
  for (std::uint64_t i = 0; i < 100; ++i) names.set(i * page, page, i % 2 == 0 ? "even" : "odd");
  const std::vector<Extent> extents{
      {0, 100 * page}, {200 * page, 203 * page}, {300 * page, 301 * page}};
  const AddressRows rows(extents, names, page, 10, 2);
  REQUIRE(rows.segments().size() == 2);
  CHECK(rows.segments()[0].extent == extents[0]);
  CHECK(rows.segments()[1].extent == extents[1]);
  CHECK(rows.bytes_left_out() == page);
}

}  // namespace wherry::test::address_rows_test
