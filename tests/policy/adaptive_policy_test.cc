// Pages move where that pays. The clock, the costs and the machine are the test's own.
#include "policy/adaptive_policy.h"

#include "policy/policy_setup.h"
#include "support/catch.h"

namespace wherry::test::adaptive_policy_test {
namespace {

using namespace wherry::impl;

// The access costs of the host and a device. An access to the other one's memory takes `percent` of
// the time of an access to the own memory.
AccessCosts access_costs(std::uint16_t percent) {
  AccessCosts access_costs;
  access_costs.percent[0] = {100, percent};
  access_costs.percent[1] = {percent, 100};
  return access_costs;
}

// A block, the places of its pages, and which processors map them.
struct Game {
  explicit Game(std::uint16_t percent, AdaptiveParameters parameters = {})
      : policy(parameters, access_costs(percent)) {}

  FaultFacts facts(Processor faulting_processor, unsigned page) const {
    FaultFacts facts;
    facts.faulting_processor = faulting_processor;
    facts.table = facts.faulting_processor;
    facts.block = {block};
    facts.page = page;
    facts.now_ns = now;
    facts.residents = exists.test(page) ? (at_device.test(page) ? device : host).bit() : 0;
    facts.stretch = {0, 512};
    facts.held = exists & (faulting_processor == device ? at_device : ~at_device);
    facts.mapped = mapped[faulting_processor.index];
    facts.free_pages = free_pages;
    facts.fault_ns = 20 * us;
    facts.page_ns = 1 * us;
    return facts;
  }
  // Acts like the fault service. Returns where the page is mapped afterwards.
  Processor touch(Processor faulting_processor, unsigned page) {
    ++faults;
    opinion = policy.on_fault(facts(faulting_processor, page), history);
    const Processor to = opinion.destination.value_or(faulting_processor);
    const PageMask region = PageMask::of(opinion.region.value());
    REQUIRE(region.test(page));
    const bool moves = exists.test(page) && at_device.test(page) != (to == device);
    if (!exists.test(page) || moves) {
      exists |= region;
      at_device = to == device ? at_device | region : at_device - region;
      mapped[1 - faulting_processor.index] -= region;
    }
    if (moves) {
      ++migrations;
      policy.on_arrival({*opinion.region, to,
                         opinion.pins ? MoveCause::thrash_pin : MoveCause::fault, false, now},
                        history);
    }
    mapped[faulting_processor.index] |= region;
    return to;
  }
  // Accesses the pages of the block in order.
  void sweep(Processor faulting_processor) {
    for (unsigned page = 0; page < 512; ++page)
      if (!mapped[faulting_processor.index].test(page)) touch(faulting_processor, page);
  }
  void next_block() {
    ++block;
    exists = at_device = {};
    mapped[0] = mapped[1] = {};
    history = nullptr;
  }
  // Unmaps the pages whose temporary pins have ended, so that they fault again.
  PageMask end_temporary_pins() {
    const PageMask ended = history ? policy.end_temporary_pins(now, *history) : PageMask{};
    mapped[0] -= ended & at_device;
    mapped[1] -= ended - at_device;
    return ended;
  }

  const AdaptivePolicy policy;
  std::unique_ptr<BlockHistory> history;
  std::uint64_t block = 100;
  std::uint64_t now = 1000 * ms;
  std::uint64_t free_pages = 100'000;
  PageMask exists;
  PageMask at_device;
  PageMask mapped[2];
  Opinion opinion;
  unsigned faults = 0;
  unsigned migrations = 0;
};

TEST_CASE("where all memory is equally fast no page moves") {
  Game game(100);
  CHECK_FALSE(game.policy.remembers());
  CHECK(game.touch(device, 3) == device);
  CHECK(game.touch(host, 200) == host);
  for (int i = 0; i < 10; ++i, game.now += 10 * ms) {
    CHECK(game.touch(host, 3) == device);
    CHECK(game.touch(device, 200) == host);
  }
  CHECK(game.migrations == 0);
}

TEST_CASE("where the memory of others is slow, pages move to the accessing processor") {
  Game game(200);
  CHECK(game.policy.remembers());
  CHECK(game.touch(device, 3) == device);
  CHECK(game.touch(host, 3) == host);
  game.now += 10 * ms;
  CHECK(game.touch(device, 3) == device);
  game.now += 10 * ms;
  CHECK(game.touch(host, 3) == host);
  CHECK(game.migrations == 3);
}

TEST_CASE("pages that move back too early to pay are pinned, and retried at growing intervals") {
  Game game(200);
  game.touch(host, 3);
  std::uint64_t last_length = 0;
  for (int round = 0; round < 4; ++round) {
    const unsigned before = game.migrations;
    for (int i = 0; i < 20; ++i, game.now += 50 * us) {
      game.touch(i % 2 == 0 ? device : host, 3);
      if (game.opinion.pins) break;
    }
    INFO("round " << round);
    REQUIRE(game.opinion.pins);
    CHECK(game.opinion.pin_begins);
    CHECK(game.migrations - before <= 3);
    const std::uint64_t end = game.opinion.pin_until_ns;
    CHECK(end - game.now > last_length);
    last_length = end - game.now;
    // No page moves until then, and the temporary pin stays the same.
    game.now = end - 1;
    const unsigned moved = game.migrations;
    game.touch(host, 3);
    game.touch(device, 3);
    CHECK(game.migrations == moved);
    CHECK_FALSE(game.opinion.pin_begins);
    CHECK(game.end_temporary_pins().none());
    game.now = end;
    CHECK(game.end_temporary_pins().count() == 16);
    CHECK(game.end_temporary_pins().none());
  }
}

TEST_CASE("a move pays from a time on that follows from its cost and its savings") {
  // Moving 16 pages costs 36 us. Remote access takes twice as long, and half of the difference
  // counts: 36 / (1/2 * 1/2) = 144 us.
  for (const auto& [residency, moves] : {std::pair{100 * us, false}, std::pair{200 * us, true}}) {
    Game game(200);
    for (int i = 0; i < 3; ++i, game.now += residency) game.touch(i % 2 == 0 ? host : device, 3);
    INFO(residency << " ns");
    game.touch(device, 3);
    CHECK((game.migrations == 3) == moves);
  }
  // Remote access takes four times as long: 36 / (3/4 * 1/2) = 96 us.
  Game game(400);
  for (int i = 0; i < 3; ++i, game.now += 100 * us) game.touch(i % 2 == 0 ? host : device, 3);
  game.touch(device, 3);
  CHECK(game.migrations == 3);
}

TEST_CASE("neighbours that two processors contend for do not come along, and others do") {
  Game game(200);
  for (unsigned page = 0; page < 512; page += 16) game.touch(host, page);
  for (int i = 0; !game.opinion.pins; ++i, game.now += 30 * us) {
    REQUIRE(i < 20);
    game.touch(i % 2 == 0 ? device : host, 40);  // in the region of pages 32 to 47
  }
  for (const unsigned page : {0u, 16u, 48u, 64u, 80u, 96u}) game.touch(device, page);
  CHECK_FALSE(game.at_device.test(32));
  CHECK(game.at_device.test(16));
  CHECK(game.at_device.test(64));
}

TEST_CASE("a sweep takes six faults for its first block, and one for each following block") {
  for (const std::uint16_t percent : {100, 200}) {
    Game game(percent);
    game.sweep(device);
    CHECK(game.faults == 6);
    for (int i = 0; i < 5; ++i) {
      game.next_block();
      game.faults = 0;
      game.sweep(device);
      CHECK(game.faults == 1);
    }
    // The device's sweep also goes on downwards, to block 99. It has no effect on the host.
    game.next_block();
    game.block = 99;
    game.faults = 0;
    game.touch(host, 7);
    CHECK(game.exists.count() == 16);
    game.next_block();
    game.block = 99;
    game.faults = 0;
    game.sweep(device);
    CHECK(game.faults == 1);
  }
}

TEST_CASE("sparse accesses bring no more than their regions") {
  Game game(100);
  for (int i = 0; i < 20; ++i) {
    game.touch(device, 5);
    game.touch(device, 300);
    CHECK(game.exists.count() == 32);
    game.next_block();
  }
}

TEST_CASE("nothing is evicted for a first access") {
  Game game(200);
  game.free_pages = 8;
  CHECK(game.touch(device, 3) == host);
  CHECK_FALSE(game.opinion.pins);
  game.free_pages = 100'000;
  CHECK(game.touch(device, 100) == device);

  // Pages at the host are mapped remotely, and retried later.
  game.next_block();
  game.touch(host, 3);
  game.free_pages = 0;
  CHECK(game.touch(device, 3) == host);
  REQUIRE(game.opinion.pins);
  game.now = game.opinion.pin_until_ns;
  CHECK_FALSE(game.end_temporary_pins().none());
  CHECK(game.touch(device, 3) == device);
}

TEST_CASE("pages that return from an eviction return as a whole block") {
  Game game(200);
  FaultFacts facts = game.facts(device, 7);
  facts.residents = host.bit();
  facts.evicted = true;
  CHECK(game.policy.on_fault(facts, game.history).region == PageRun{0, 512});
}

TEST_CASE("pages that move to a processor one by one have not been taken away in between") {
  AdaptiveParameters parameters;
  parameters.prefetches = false;
  Game game(200, parameters);
  for (unsigned page = 0; page < 512; ++page) game.touch(host, page);
  for (unsigned page = 0; page < 512; ++page, game.now += 30 * us)
    REQUIRE(game.touch(device, page) == device);
  CHECK(game.migrations == 512);
}

TEST_CASE(
    "pages already at the processor need no more space, and a region may fit if a block does not") {
  Game game(200);
  for (unsigned page = 0; page < 256; page += 16) game.touch(device, page);
  game.free_pages = 300;  // 256 pages come with the next access
  CHECK(game.touch(device, 256) == device);
  game.next_block();
  game.block = 300;
  for (unsigned page = 0; page < 256; page += 16) game.touch(device, page);
  game.free_pages = 20;
  CHECK(game.touch(device, 256) == device);
  CHECK(game.exists.count() == 256 + 16);
}

TEST_CASE("pages that go to another processor's memory do not count for the faulting processor") {
  Game game(200);
  FaultFacts facts = game.facts(host, 7);
  facts.preferred = device;
  const Opinion opinion = game.policy.on_fault(facts, game.history);
  CHECK_FALSE(opinion.destination);
  CHECK_FALSE(opinion.region);
}

TEST_CASE("after the end of a temporary pin the move is retried, even if the pin was not removed") {
  Game game(200);
  game.touch(host, 3);
  for (int i = 0; !game.opinion.pins; ++i, game.now += 30 * us) {
    REQUIRE(i < 20);
    game.touch(i % 2 == 0 ? device : host, 3);
  }
  game.now = game.opinion.pin_until_ns;
  const Processor other = game.at_device.test(3) ? host : device;
  CHECK(game.touch(other, 3) == other);
  CHECK_FALSE(game.opinion.pins);
}

TEST_CASE("two questions about one fault have the same answer") {
  Game game(200);
  game.sweep(device);
  game.next_block();
  const FaultFacts facts = game.facts(device, 0);
  for (int i = 0; i < 3; ++i)
    CHECK(game.policy.on_fault(facts, game.history).region == PageRun{0, 512});
}

TEST_CASE("a block that left and is accessed again is not a sweep") {
  Game game(200);
  game.sweep(host);
  game.sweep(device);
  CHECK(game.touch(host, 7) == host);
  CHECK(game.opinion.region->count == 16);
}

TEST_CASE("when the program places pages, earlier observations are forgotten") {
  Game game(200);
  for (int i = 0; i < 3; ++i, game.now += 20 * us) game.touch(i % 2 == 0 ? host : device, 3);
  game.policy.on_arrival({{0, 512}, host, MoveCause::prefetch, false, game.now}, game.history);
  CHECK(game.touch(device, 3) == device);
}

TEST_CASE("the program may set the cost of other processors' memory") {
  AdaptiveParameters parameters;
  parameters.far_percent = 300;
  Game game(100, parameters);
  CHECK(game.touch(device, 3) == device);
  CHECK(game.touch(host, 3) == host);
}

}  // namespace
}  // namespace wherry::test::adaptive_policy_test
