#include "pages/advice.h"

#include <algorithm>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::advice_test {

using namespace wherry::impl;

namespace {

using Kind = AdviceChange::Kind;

constexpr AdviceChange read_mostly{Kind::set_read_mostly, {}};
constexpr AdviceChange not_read_mostly{Kind::unset_read_mostly, {}};

std::vector<AdviceMap::Segment> segments(const AdviceMap& map, PageSpan span) {
  std::vector<AdviceMap::Segment> all;
  map.for_each(span, [&](const AdviceMap::Segment& segment) {
    all.push_back(segment);
    return true;
  });
  return all;
}

Advice after(std::initializer_list<AdviceChange> changes) {
  Advice advice;
  for (const AdviceChange& change : changes) change.apply(advice);
  return advice;
}

Location some_location(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return Location::device(0);
    case 1:
      return Location::device(1);
    case 2:
      return Location::host();
    default:
      return Location::host_node(static_cast<int>(random() % 2));
  }
}

}  // namespace

TEST_CASE(
    "each change changes its own part of the advice, and setting and unsetting undo each other",
    "[pages]") {
  CHECK(after({}) == Advice{});
  CHECK(after({read_mostly}).read_mostly);
  CHECK(after({{Kind::set_preferred, Location::device(1)}}).preferred == Location::device(1));
  CHECK(after({{Kind::set_preferred, Location::device(1)}, {Kind::unset_preferred, {}}}) ==
        Advice{});
  const AdviceChange by_host{Kind::set_accessed_by, Location::host()};
  const AdviceChange by_device{Kind::set_accessed_by, Location::device(1)};
  CHECK(after({by_host, by_device}).accessed_by ==
        (Processor::host().bit() | Processor::device(1).bit()));
  CHECK(after({by_host, by_device, {Kind::unset_accessed_by, Location::host()}}) ==
        after({by_device}));
  CHECK(after({read_mostly, not_read_mostly}) == Advice{});
}

TEST_CASE("without advice one segment has all pages", "[pages]") {
  AdviceMap map;
  CHECK(map.empty());
  CHECK(map.at({1000}).span.first == PageIndex{0});
  CHECK(map.at({0}).span.contains({std::uint64_t{1} << 50}));
  CHECK(map.at({1000}).value == Advice{});
  map.change({{100}, 0}, read_mostly);
  map.forget({{0}, 1000});
  CHECK(map.empty());
}

TEST_CASE("advice on part of a segment splits it, and equal neighbours merge", "[pages]") {
  AdviceMap map;
  map.change({{100}, 50}, read_mostly);
  CHECK_FALSE(map.empty());
  map.change({{120}, 50}, {Kind::set_preferred, Location::device(0)});

  const auto split = segments(map, {{90}, 100});
  REQUIRE(split.size() == 5);
  CHECK(split[0].span == PageSpan{{90}, 10});
  CHECK(split[0].value == Advice{});
  CHECK(split[1].span == PageSpan{{100}, 20});
  CHECK(split[2].span == PageSpan{{120}, 30});
  CHECK(split[2].value.read_mostly);
  CHECK(split[2].value.preferred == Location::device(0));
  CHECK(split[3].span == PageSpan{{150}, 20});
  CHECK_FALSE(split[3].value.read_mostly);
  CHECK(split[4].span == PageSpan{{170}, 20});
  CHECK(map.at({149}).span == split[2].span);

  map.change({{120}, 50}, {Kind::unset_preferred, {}});
  CHECK(map.at({100}).span == PageSpan{{100}, 50});
  map.forget({{110}, 10});
  CHECK(map.at({100}).span == PageSpan{{100}, 10});
  CHECK(map.at({110}).span == PageSpan{{110}, 10});
  map.change({{110}, 10}, read_mostly);
  CHECK(map.at({115}).span == PageSpan{{100}, 50});
  map.forget({{0}, 1000});
  CHECK(map.empty());
}

TEST_CASE("a visit ends when the visitor returns false, and may change the visited segments",
          "[pages]") {
  AdviceMap map;
  map.change({{10}, 1}, read_mostly);
  map.change({{20}, 1}, read_mostly);
  int visited = 0;
  map.for_each({{0}, 30}, [&](const AdviceMap::Segment&) { return ++visited < 2; });
  CHECK(visited == 2);

  PageSpan seen{{0}, 0};
  map.for_each({{0}, 30}, [&](const AdviceMap::Segment& segment) {
    CHECK(segment.span.first == seen.end());
    seen.count = segment.span.end() - seen.first;
    map.change(segment.span, read_mostly);
    return true;
  });
  CHECK(seen == PageSpan{{0}, 30});
  CHECK(map.at({0}).span == PageSpan{{0}, 30});
}

TEST_CASE("100,000 alternating single pages stay apart, and merge back into one segment",
          "[pages]") {
  constexpr std::uint64_t pages = 200'000;
  AdviceMap map;
  for (std::uint64_t page = 0; page < pages; page += 2) map.change({{page}, 1}, read_mostly);
  CHECK(segments(map, {{0}, pages}).size() == pages);
  for (std::uint64_t page = 1; page < pages; page += 2) map.change({{page}, 1}, read_mostly);
  CHECK(segments(map, {{0}, pages}).size() == 1);
  CHECK(map.at({777}).span == PageSpan{{0}, pages});
  map.forget({{0}, pages});
  CHECK(map.empty());
}

TEST_CASE("random advice on overlapping ranges agrees with an array of pages", "[pages]") {
  std::mt19937 random(static_cast<unsigned>(wherry::test::seed()));
  constexpr std::uint64_t pages = 300;
  std::vector<Advice> model(pages);
  AdviceMap map;
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t first = random() % pages;
    const PageSpan span{{first}, 1 + random() % std::min<std::uint64_t>(pages - first, 40)};
    if (random() % 8 == 0) {
      map.forget(span);
      for (PageIndex page = span.first; page < span.end(); ++page) model[page.value] = {};
    } else {
      const AdviceChange change{static_cast<Kind>(random() % 8), some_location(random)};
      map.change(span, change);
      for (PageIndex page = span.first; page < span.end(); ++page) change.apply(model[page.value]);
    }
    // Every segment agrees with the model, and ends where the model changes.
    PageIndex next;
    map.for_each({{0}, pages}, [&](const AdviceMap::Segment& segment) {
      REQUIRE(segment.span.first == next);
      for (PageIndex page = next; page < segment.span.end(); ++page)
        REQUIRE(model[page.value] == segment.value);
      next = segment.span.end();
      if (next.value < pages) REQUIRE_FALSE(model[next.value] == segment.value);
      return true;
    });
    REQUIRE(next.value == pages);
  }
  map.forget({{0}, pages});
  CHECK(map.empty());
}

TEST_CASE("unset advice leaves nothing in the map", "[pages]") {
  AdviceMap map;
  map.change({{0}, 100}, not_read_mostly);
  map.change({{0}, 100}, {Kind::unset_preferred, {}});
  CHECK(map.empty());
  map.change({{10}, 20}, read_mostly);
  map.change({{0}, 100}, not_read_mostly);
  CHECK(map.empty());
}

TEST_CASE("the destination of each page's last prefetch is stored until it is forgotten",
          "[pages]") {
  LastPrefetches last;
  CHECK(last.at({7}).value.is_none());
  last.set({{0}, 100}, Location::device(1));
  last.set({{40}, 20}, Location::host_node(3));
  CHECK(last.at({39}).value == Location::device(1));
  CHECK(last.at({40}).value == Location::host_node(3));
  CHECK(last.at({59}).span == PageSpan{{40}, 20});
  last.set({{0}, 100}, Location::host());
  CHECK(last.at({50}).span == PageSpan{{0}, 100});
  last.forget({{0}, 100});
  CHECK(last.empty());
}

TEST_CASE("the pinned pages of a block are reported, and unpinned ones are not") {
  AdviceMap map;
  CHECK(map.pinned({0}).none());
  map.change({{500}, 20}, {Kind::pinned, {}});
  map.change({{505}, 2}, {Kind::unpinned, {}});
  map.change({{0}, 1024}, read_mostly);
  PageMask first = PageMask::of({500, 12});
  first -= PageMask::of({505, 2});
  CHECK(map.pinned({0}) == first);
  CHECK(map.pinned({1}) == PageMask::of({0, 8}));
  CHECK(map.pinned({2}).none());
  map.forget({{500}, 20});
  CHECK(map.pinned({0}).none());
  CHECK(map.pinned({1}).none());
}

}  // namespace wherry::test::advice_test
