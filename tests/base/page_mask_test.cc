#include "base/page_mask.h"

#include "support/catch.h"

#include <bitset>
#include <random>
#include <vector>

namespace wherry::test::page_mask_test {

using namespace wherry::impl;

TEST_CASE("a mask of a run holds exactly that run") {
  for (unsigned first : {0u, 1u, 63u, 64u, 65u, 127u, 448u, 511u}) {
    for (unsigned count : {0u, 1u, 2u, 63u, 64u, 65u, 128u, 511u, 512u}) {
      if (first + count > pages_per_block) continue;
      const PageMask mask = PageMask::of({first, count});
      for (unsigned page = 0; page < pages_per_block; ++page)
        REQUIRE(mask.test(page) == (page >= first && page < first + count));
      REQUIRE(mask.count() == count);
      REQUIRE(mask.none() == (count == 0));
    }
  }
}

TEST_CASE("set operations and runs agree with a plain bitset") {
  std::mt19937 random(20261121);
  for (int round = 0; round < 500; ++round) {
    PageMask mask;
    std::bitset<pages_per_block> plain;
    for (int step = 0; step < 12; ++step) {
      const unsigned first = random() % pages_per_block;
      const PageRun run{first, static_cast<unsigned>(random() % (pages_per_block - first + 1))};
      const unsigned operation = random() % 3;
      for (unsigned page = 0; page < pages_per_block; ++page) {
        const bool in = page >= run.first && page < run.end();
        if (operation == 0 && in) plain.set(page);
        if (operation == 1 && in) plain.reset(page);
        if (operation == 2 && !in) plain.reset(page);
      }
      if (operation == 0) mask |= PageMask::of(run);
      if (operation == 1) mask -= PageMask::of(run);
      if (operation == 2) mask &= PageMask::of(run);
    }
    REQUIRE(mask.count() == plain.count());
    std::bitset<pages_per_block> from_runs;
    unsigned last_end = 0;
    for (const PageRun run : runs_of(mask)) {
      REQUIRE(run.count != 0);
      REQUIRE((run.first > last_end || last_end == 0));
      for (unsigned page = run.first; page < run.end(); ++page) from_runs.set(page);
      last_end = run.end();
    }
    REQUIRE(from_runs == plain);
  }
}

}  // namespace wherry::test::page_mask_test
