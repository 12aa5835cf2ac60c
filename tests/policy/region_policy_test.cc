#include "policy/region_policy.h"

#include <catch2/catch.hpp>

using namespace wherry::impl;

namespace {

FaultFacts touch(unsigned page, PageRun allocation) {
  FaultFacts facts;
  facts.toucher = Processor::device(1);
  facts.page = page;
  facts.allocation = allocation;
  return facts;
}

}  // namespace

TEST_CASE("the page goes to the toucher with its natural region") {
  const RegionPolicy policy(16);
  const Decision decision = policy.on_fault(touch(37, {0, 512}));
  CHECK(decision.destination == Processor::device(1));
  CHECK(decision.region == PageRun{32, 16});
}

TEST_CASE("the region ends where the allocation ends") {
  const RegionPolicy policy(16);
  CHECK(policy.on_fault(touch(37, {35, 4})).region == PageRun{35, 4});
  CHECK(policy.on_fault(touch(33, {0, 34})).region == PageRun{32, 2});
}

TEST_CASE("a region of one page brings nothing along, one of a block everything") {
  CHECK(RegionPolicy(1).on_fault(touch(511, {0, 512})).region == PageRun{511, 1});
  CHECK(RegionPolicy(512).on_fault(touch(5, {0, 512})).region == PageRun{0, 512});
}
