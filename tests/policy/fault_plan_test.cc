#include "policy/fault_plan.h"

#include "migration/locked_block.h"
#include "pages/block_directory.h"
#include "support/catch.h"

namespace wherry::test::fault_plan_test {

using namespace wherry::impl;

namespace {

using Kind = FaultPlan::Kind;
using WaitsFor = FaultPlan::WaitsFor;

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);
constexpr Processor other_device = Processor::device(1);
constexpr PageRun region{32, 16};

// A device faults on page 37 of a block, and should have its region.
struct Setup {
  BlockDirectory blocks{1, 3};
  FaultFacts facts;
  Decision decision;
  FaultConstraints constraints;

  Setup() {
    facts.faulting_processor = device;
    facts.table = facts.faulting_processor;
    facts.page = 37;
    facts.processors = 3;
    facts.now_ns = 1'000'000'000;
    facts.stretch = {0, 512};
    decision.destination = device;
    decision.region = region;
  }

  void hold(const LockedBlock& block, Processor p, PageRun run) REQUIRES(block.state.lock) {
    block.state.populated(p, run);
    facts.residents = block.state.residents(facts.page);
  }
  void reserve(Processor p, std::uint64_t pages) {
    constraints.reserved_at = p;
    constraints.reserved = pages;
  }
  FaultPlan plan(const LockedBlock& block) REQUIRES(block.state.lock) {
    return plan_fault(block.state, facts, decision, constraints);
  }
};

}  // namespace

TEST_CASE("pages that come need a reservation, and the next plan carries them") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, {0, 40});
  FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::reserve);
  CHECK(plan.decision.destination == device);
  CHECK(plan.pages == 8);
  CHECK_FALSE(plan.is_for_many);
  s.reserve(host, 100);
  CHECK(s.plan(block).kind == Kind::reserve);
  s.reserve(device, 8);
  plan = s.plan(block);
  CHECK(plan.kind == Kind::transfer);
  CHECK(plan.transfer.exists);
  CHECK_FALSE(plan.transfer.copy);
  CHECK(plan.transfer.from == host);
  CHECK(plan.transfer.pages == PageMask::of({32, 8}));
  CHECK(plan.begins_residency);
}

TEST_CASE("pages that are nowhere are created, without those that exist") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, {40, 100});
  s.reserve(device, 16);
  const FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::transfer);
  CHECK_FALSE(plan.transfer.exists);
  CHECK(plan.transfer.pages == PageMask::of({32, 8}));
}

TEST_CASE("a page that is at its destination is only mapped, and takes nothing from others") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, device, region);
  const FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::map);
  CHECK(plan.is_there);
  CHECK_FALSE(plan.begins_residency);
  CHECK_FALSE(plan.ends_copies);
}

TEST_CASE("a write ends copies, where the page is and where it comes to") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, region);
  block.state.duplicated(device, region);
  s.facts.residents = block.state.residents(37);
  CHECK_FALSE(s.plan(block).ends_copies);
  s.facts.write = true;
  CHECK(s.plan(block).kind == Kind::map);
  CHECK(s.plan(block).ends_copies);
  CHECK(s.plan(block).begins_residency);
  s.decision.destination = other_device;
  s.reserve(other_device, 16);
  CHECK(s.plan(block).kind == Kind::transfer);
  CHECK(s.plan(block).transfer.copy);
  CHECK(s.plan(block).ends_copies);
}

TEST_CASE("a page stays with the processor that got it last until its residency ends") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, region);
  const std::uint64_t now = s.facts.now_ns;
  block.state.minimum_residency.begin(region, host, now);
  block.state.minimum_residency.woken(region, host, now);
  const FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::wait);
  CHECK(plan.waits_for == WaitsFor::minimum_residency);
  CHECK(plan.until_ns > now);
  s.facts.now_ns = plan.until_ns + 2000;
  CHECK(s.plan(block).kind == Kind::reserve);
  // A processor does not wait for its own residency, nor for pages that are there already.
  s.facts.now_ns = now;
  s.decision.destination = host;
  CHECK(s.plan(block).kind == Kind::map);
}

TEST_CASE("a fault waits for a view change and for a transfer before the policy is asked") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, region);
  CHECK_FALSE(wait_before_decision(block.state, s.facts));
  block.state.switch_begun(device, {37, 1});
  REQUIRE(wait_before_decision(block.state, s.facts));
  CHECK(wait_before_decision(block.state, s.facts)->waits_for == WaitsFor::view_change);
  block.state.switch_failed(device, {37, 1});
  block.state.transfer_begun({36, 4});
  REQUIRE(wait_before_decision(block.state, s.facts));
  CHECK(wait_before_decision(block.state, s.facts)->waits_for == WaitsFor::transfer);
}

TEST_CASE("pages in flight are left out of the region") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, region);
  block.state.transfer_begun({40, 8});
  CHECK(s.plan(block).decision.region == PageRun{32, 8});
  CHECK(s.plan(block).pages == 8);
}

TEST_CASE("a policy may throttle a fault, for a limited time") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, region);
  s.decision.wait_until_ns = s.facts.now_ns + 2 * throttle_limit_ns;
  const FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::wait);
  CHECK(plan.waits_for == WaitsFor::policy);
  CHECK(plan.until_ns == s.facts.now_ns + throttle_limit_ns);
  s.constraints.no_throttling = true;
  CHECK(s.plan(block).kind == Kind::reserve);
}

TEST_CASE("a page whose destination has no space stays where it is, or is created elsewhere") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.constraints.no_space = true;
  // It is nowhere: first space has to be found, for the region or for the page.
  FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::reserve);
  CHECK(plan.pages == 0);
  s.constraints.space_at = host;
  s.constraints.space_for = {37, 1};
  s.reserve(host, 1);
  plan = s.plan(block);
  CHECK(plan.kind == Kind::transfer);
  CHECK(plan.decision.destination == host);
  CHECK(plan.decision.reason == Reason::no_space);
  CHECK(plan.transfer.pages == PageMask::of({37, 1}));
  // A device's own memory is in its pool or nowhere.
  s.constraints.space_at.reset();
  s.facts.is_managed = false;
  CHECK(s.plan(block).kind == Kind::refuse);
  // It is at the host.
  s.facts.is_managed = true;
  s.hold(block, host, region);
  plan = s.plan(block);
  CHECK(plan.kind == Kind::map);
  CHECK(plan.decision.destination == host);
}

TEST_CASE("a page whose view cannot change comes to the pool that the view shows") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, device, region);
  block.state.switch_begun(device, region);
  block.state.switched(device, region, host);
  s.decision.destination = device;
  s.constraints.keep_view = true;
  const FaultPlan plan = s.plan(block);
  CHECK(plan.kind == Kind::reserve);
  CHECK(plan.decision.destination == host);
  CHECK(plan.decision.reason == Reason::no_mappings);
  s.facts.pinned = true;
  CHECK(s.plan(block).decision.destination == device);
}

TEST_CASE("a plan says whether the reservation is for more than a region") {
  Setup s;
  const LockedBlock block({0}, s.blocks.at({0}));
  s.hold(block, host, {0, 512});
  s.decision.region = {0, 64};
  CHECK(s.plan(block).is_for_many);
  s.decision.region = region;
  CHECK_FALSE(s.plan(block).is_for_many);
  s.facts.evicted = true;
  CHECK(s.plan(block).is_for_many);
}

}  // namespace wherry::test::fault_plan_test
