// Where pages are after each event, and the part of the time that each processor held them.
#include "report/residency_map.h"

#include "support/catch.h"

namespace wherry::test::residency_map_test {

using namespace wherry::impl;
using namespace wherry::report;

namespace {

constexpr std::uint64_t page = 4096;

TraceEvent move(EventKind kind, std::int8_t from, std::int8_t to, std::uint64_t address,
                std::uint64_t bytes) {
  return {.address = address, .bytes = bytes, .kind = kind, .source = from, .destination = to};
}

void apply(PagePlaces& places, const TraceEvent& event) {
  places.apply(event, [](std::uint64_t, PageState, PageState) {});
}

}  // namespace

TEST_CASE("pages are where events put them") {
  PagePlaces places(page);
  apply(places, move(EventKind::populate, -1, 0, 0x10000, 4 * page));
  CHECK(places.at(0x10000 + 3 * page) == PageState{1, 0});
  CHECK(places.at(0x10000 + 4 * page) == PageState{});
  apply(places, move(EventKind::migration, 0, 2, 0x10000, page));
  CHECK(places.at(0x10000) == PageState{4, 4});
  apply(places, move(EventKind::duplicate, 2, 1, 0x10000, page));
  CHECK(places.at(0x10000) == PageState{6, 6});
  apply(places, move(EventKind::invalidate, 2, -1, 0x10000, page));
  CHECK(places.at(0x10000) == PageState{2, 6});
  apply(places, move(EventKind::remote_map, 1, 0, 0x10000, page));
  CHECK(places.at(0x10000) == PageState{2, 6});
  apply(places, move(EventKind::free, -1, -1, 0, UINT64_MAX));
  CHECK(places.at(0x10000) == PageState{});
}

TEST_CASE("changes are reported once for each page, across blocks") {
  PagePlaces places(page);
  std::size_t changes = 0;
  const auto count = [&](std::uint64_t, PageState before, PageState after) {
    CHECK(before.places == 0);
    CHECK(after.places == 1);
    ++changes;
  };
  const TraceEvent event = move(EventKind::populate, -1, 0, 500 * page, 600 * page);
  places.apply(event, count);
  places.apply(event, count);
  CHECK(changes == 600);
}

TEST_CASE("a trace that claims to use all addresses takes bounded memory") {
  PagePlaces places(page, 8);
  for (std::uint64_t block = 0; block < 8; ++block)
    apply(places, move(EventKind::populate, -1, 0, 2 * block * 512 * page, page));
  apply(places, move(EventKind::populate, -1, 0, 0, UINT64_MAX));
  CHECK(places.at(14 * 512 * page + page) == PageState{1, 0});
  CHECK(places.at(13 * 512 * page) == PageState{});
  CHECK(places.at(16 * 512 * page) == PageState{});
}

TEST_CASE("a holder's share of a row is the part of its pages and of the time") {
  const std::vector<Extent> extents{{0, 4 * page}};
  const AddressRows rows(extents, {}, page, 2, 10);
  REQUIRE(rows.size() == 2);
  ResidencyMap map(rows, TimeBins{1000, 100, 3}, page, 2);
  REQUIRE(map.holders() == 3);
  map.change(1050, 0, 0, 1);     // one of two pages, for half of the first part of the time
  map.change(1100, 0, 1, 2);     // the device has it for all of the second part,
  map.change(1200, 0, 2, 3);     // and both have it in the third
  map.change(1200, page, 0, 2);  // the row's other page
  map.end();
  const auto near = [](int share, int expected) { return std::abs(share - expected) <= 1; };
  CHECK(near(map.share(0, 0, 0), 64));
  CHECK(map.share(1, 0, 0) == 0);
  CHECK(near(map.share(1, 0, 1), 128));
  CHECK(near(map.share(1, 0, 2), 128));
  CHECK(near(map.share(2, 0, 2), 128));
  CHECK(map.share(0, 0, 2) == 0);
  for (std::size_t bin = 0; bin < 3; ++bin) CHECK(map.share(0, 1, bin) == 0);
}

TEST_CASE("changes outside the rows and at earlier times do no harm") {
  const std::vector<Extent> extents{{page, 2 * page}};
  const AddressRows rows(extents, {}, page, 2, 10);
  ResidencyMap map(rows, TimeBins{1000, 100, 2}, page, 1);
  map.change(1000, 0, 0, 1);
  map.change(1000, page, 0, 1);
  map.change(1150, page, 1, 0);
  map.change(1020, page, 0, 1);
  map.end();
  CHECK(map.share(0, 0, 0) == 255);
  CHECK(map.share(0, 0, 1) == 255);
}

}  // namespace wherry::test::residency_map_test
