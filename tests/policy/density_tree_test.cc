// The density tree compared with measurements of the driver's rule: how many faults fill a block,
// by the order of accesses.
#include "policy/density_tree.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::density_tree_test {
namespace {

using impl::PageMask;
using impl::PageRun;
using impl::pages_per_block;

constexpr PageRun whole{0, pages_per_block};

struct Outcome {
  unsigned faults = 0;
  PageMask present;
};

// Accesses the pages in this order. Absent pages fault, and bring their neighbors.
Outcome touch(const std::vector<unsigned>& pages, const PageMask& barred = {},
              PageRun stretch = whole, unsigned threshold_percent = 51) {
  const impl::DensityTree tree{threshold_percent};
  Outcome outcome;
  for (const unsigned page : pages) {
    if (outcome.present.test(page)) continue;
    ++outcome.faults;
    const PageMask faulted = PageMask::of({page, 1});
    const PageMask neighbours = tree.neighbours(faulted, outcome.present, barred, stretch);
    REQUIRE((neighbours & (faulted | outcome.present | barred)).none());
    REQUIRE((neighbours - PageMask::of(stretch)).none());
    outcome.present |= faulted | neighbours;
  }
  return outcome;
}

std::vector<unsigned> every(unsigned stride) {
  std::vector<unsigned> pages;
  for (unsigned page = 0; page < pages_per_block; page += stride) pages.push_back(page);
  return pages;
}

TEST_CASE("a block that is accessed in order takes six faults, each doubling the present pages") {
  std::vector<unsigned> pages = every(1);
  CHECK(touch(pages).faults == 6);
  std::reverse(pages.begin(), pages.end());
  CHECK(touch(pages).faults == 6);

  const impl::DensityTree tree;
  PageMask present;
  for (const unsigned count : {16u, 32u, 64u, 128u, 256u, 512u}) {
    const unsigned page = present.count();
    present |= PageMask::of({page, 1});
    present |=
        tree.neighbours(PageMask::of({page, 1}), present - PageMask::of({page, 1}), {}, whole);
    CHECK(present == PageMask::of({0, count}));
  }
}

TEST_CASE("strides: 64 KiB is dense, 128 KiB and more never are") {
  CHECK(touch(every(16)).faults == 6);
  const Outcome half = touch(every(32));
  CHECK(half.faults == 16);
  CHECK(half.present.count() == 256);
  const Outcome quarter = touch(every(64));
  CHECK(quarter.faults == 8);
  CHECK(quarter.present.count() == 128);
}

TEST_CASE("random accesses take between seven and seventeen faults, fourteen on average") {
  std::mt19937_64 random{seed()};
  std::vector<unsigned> pages = every(1);
  constexpr int blocks = 1000;
  unsigned sum = 0;
  for (int i = 0; i < blocks; ++i) {
    std::shuffle(pages.begin(), pages.end(), random);
    const Outcome outcome = touch(pages);
    CHECK(outcome.present == PageMask::of(whole));
    CHECK(outcome.faults >= 6);
    CHECK(outcome.faults <= 20);
    sum += outcome.faults;
  }
  CHECK(sum / double{blocks} == Catch::Approx(13.8).margin(0.5));
}

TEST_CASE("a page that thrashes comes alone, and does not count for the density of its region") {
  const PageMask thrashing = PageMask::of({5, 1});
  const impl::DensityTree tree;
  CHECK(tree.neighbours(PageMask::of({5, 1}), {}, thrashing, whole).none());
  CHECK(tree.neighbours(PageMask::of({3, 1}), {}, thrashing, whole).none());
  CHECK(tree.neighbours(PageMask::of({20, 1}), {}, thrashing, whole).count() == 15);
  // The dense part around it grows as usual.
  const PageMask most = PageMask::of({0, 400}) - thrashing;
  CHECK(tree.neighbours(PageMask::of({400, 1}), most, thrashing, whole) ==
        PageMask::of({401, 111}));
}

TEST_CASE("parts end at the end of the range, and count only pages inside it") {
  // 40 pages: the first fault's region is cut to the range.
  const PageRun stretch{8, 40};
  const impl::DensityTree tree;
  CHECK(tree.neighbours(PageMask::of({8, 1}), {}, {}, stretch) == PageMask::of({9, 7}));
  CHECK(touch({8, 20, 47}, {}, stretch).present == PageMask::of(stretch));
  CHECK(tree.neighbours(PageMask::of({7, 1}), {}, {}, stretch).none());
}

TEST_CASE("the threshold sets the density above which pages come along") {
  CHECK(touch(every(32), {}, whole, 49).faults < 16);
  // No part is denser than 100%: only regions come.
  CHECK(touch(every(1), {}, whole, 100).faults == 32);
}

}  // namespace
}  // namespace wherry::test::density_tree_test
