// The driver's heuristics as a policy: which pages come along, which faults wait, and which pages
// stay.
#include "policy/uvm_policy.h"

#include "policy/policy_setup.h"
#include "support/catch.h"

namespace wherry::test::uvm_policy_test {
namespace {

using namespace wherry::impl;

// A block with all its pages at the host, and two processors that access it.
struct Game {
  UvmParameters parameters{};
  UvmPolicy policy{parameters, far_reach()};
  std::unique_ptr<BlockHistory> history{};
  PageMask at_device{};
  std::uint64_t now = 10 * ms;

  explicit Game(const UvmParameters& its_parameters = {})
      : parameters(its_parameters), policy(its_parameters, far_reach()) {}

  Processor owner(unsigned page) const { return at_device.test(page) ? device : host; }
  FaultFacts facts(Processor faulting_processor, unsigned page) const {
    FaultFacts facts;
    facts.faulting_processor = faulting_processor;
    facts.table = facts.faulting_processor;
    facts.page = page;
    facts.now_ns = now;
    facts.residents = owner(page).bit();
    facts.stretch = {0, 512};
    facts.held = faulting_processor == device ? at_device : ~at_device;
    return facts;
  }
  Opinion ask(Processor faulting_processor, unsigned page) {
    return policy.on_fault(facts(faulting_processor, page), history);
  }
  // Moves the pages. Returns the processors that contend for pages that thrash since this move.
  ProcessorMask move(PageRun run, Processor to, MoveCause cause = MoveCause::fault,
                     bool is_copy = false) {
    if (to == device)
      at_device |= PageMask::of(run);
    else
      at_device -= PageMask::of(run);
    return policy.on_arrival({run, to, cause, is_copy, now}, history);
  }
  // Acts like the fault service. Returns false if the fault has to wait.
  bool touch(Processor faulting_processor, unsigned page) {
    if (owner(page) == faulting_processor) return true;
    const Opinion opinion = ask(faulting_processor, page);
    if (opinion.wait_until_ns > now) return false;
    const Processor to = opinion.destination.value_or(faulting_processor);
    if (!(owner(page) == to))
      move(opinion.region.value(), to, opinion.pins ? MoveCause::thrash_pin : MoveCause::fault);
    return true;
  }
  // Moves the page, alone, back and forth until it thrashes. It is at the device then.
  void fight(unsigned page) {
    for (int i = 0; i < 5; ++i, now += 20 * us) {
      const ProcessorMask fighters = move({page, 1}, i % 2 == 0 ? device : host);
      REQUIRE(fighters == (i == 4 ? host.bit() | device.bit() : 0));
    }
  }
};

TEST_CASE("a device that walks through a block takes six faults with prefetching") {
  for (const bool prefetches : {true, false}) {
    UvmParameters parameters;
    parameters.prefetches = prefetches;
    Game game(parameters);
    int faults = 0;
    for (unsigned page = 0; page < 512; ++page) {
      faults += game.owner(page) == host;
      REQUIRE(game.touch(device, page));
      game.now += 2 * ms;
    }
    CHECK(faults == (prefetches ? 6 : 512));
    CHECK(game.at_device.count() == 512);
  }
}

TEST_CASE("a device that has walked through a block gets the whole of the next block at once") {
  Game game;
  FaultFacts facts = game.facts(device, 100);
  facts.held = {};
  const auto region_in = [&](std::uint64_t block) {
    facts.block = impl::BlockIndex{block};
    return game.policy.on_fault(facts, game.history).region;
  };
  CHECK(region_in(4) == PageRun{96, 16});
  facts.block = impl::BlockIndex{3};
  facts.held = PageMask::of({0, 256}) - PageMask::of({100, 1});
  (void)game.policy.on_fault(facts, game.history);
  facts.held = {};
  CHECK(region_in(4) == PageRun{0, 512});
  CHECK(region_in(5) == PageRun{0, 512});
  CHECK(region_in(9) == PageRun{96, 16});
  // The whole block comes only while the device has mapped nothing of it.
  facts.held = facts.mapped = PageMask::of({400, 1});
  CHECK(region_in(6) == PageRun{96, 16});
  facts.mapped = {};
  CHECK(region_in(6) == PageRun{0, 512});
}

TEST_CASE(
    "with a copy of a read-mostly page comes what is dense then, and whole blocks in a sweep") {
  Game game;
  FaultFacts facts = game.facts(device, 100);
  facts.read_mostly = true;
  facts.held = facts.mapped = {};
  CHECK(game.policy.on_copy(facts) == PageRun{96, 16});
  facts.block = impl::BlockIndex{7};
  facts.held = facts.mapped = PageMask::of({0, 256}) - PageMask::of({100, 1});
  CHECK(game.policy.on_copy(facts) == PageRun{0, 256});
  facts.block = impl::BlockIndex{8};
  facts.held = facts.mapped = {};
  CHECK(game.policy.on_copy(facts) == PageRun{0, 512});
}

TEST_CASE("the direction of a sweep is known from its second block on") {
  for (const int direction : {1, -1}) {
    Game game;
    FaultFacts facts = game.facts(device, 100);
    std::uint64_t block = 50;
    const auto sweeps_at = [&](std::uint64_t number) {
      facts.block = impl::BlockIndex{number};
      return game.policy.on_fault(facts, game.history).sweeps;
    };
    facts.held = facts.mapped = PageMask::of({0, 256}) - PageMask::of({100, 1});
    CHECK(sweeps_at(block) == 0);
    facts.held = facts.mapped = {};
    for (int i = 0; i < 4; ++i) {
      block += static_cast<std::uint64_t>(direction);
      CHECK(sweeps_at(block) == direction);
      CHECK(sweeps_at(block) == direction);  // the same block again
    }
    // A block that was brought ahead is there, and not mapped.
    facts.held = PageMask::of({0, 512});
    CHECK(sweeps_at(block + static_cast<std::uint64_t>(direction)) == direction);
    CHECK(sweeps_at(block + 1000) == 0);
  }
}

TEST_CASE("pages created at their preferred location come as a whole block, and elsewhere alone") {
  Game game;
  FaultFacts facts = game.facts(device, 100);
  facts.residents = 0;
  facts.held = {};
  facts.stretch = {50, 300};
  facts.preferred = host;
  CHECK(game.policy.on_fault(facts, game.history).region == PageRun{50, 300});
  facts.residents = Processor::device(1).bit();
  CHECK(game.policy.on_fault(facts, game.history).region == PageRun{100, 1});
}

TEST_CASE("of two contending processors one waits, in turns, until the page is pinned for both") {
  Game game;
  game.fight(7);
  int waits = 0;
  bool pinned = false;
  Processor last_winner = host;
  for (int round = 0; round < 1000 && !pinned; ++round, game.now += 50 * us) {
    for (const Processor p : {host, device}) {
      const Opinion opinion = game.ask(p, 7);
      if (opinion.pins) {
        pinned = true;
        CHECK(opinion.region == PageRun{7, 1});
        CHECK(opinion.pin_begins);
        CHECK(opinion.pin_until_ns == game.now + 150 * ms);
        break;
      }
      waits += opinion.wait_until_ns > game.now;
      CHECK(opinion.wait_until_ns <= game.now + 500 * us);
      if (!game.touch(p, 7) || game.owner(7) == last_winner) continue;
      last_winner = game.owner(7);
    }
  }
  REQUIRE(pinned);
  CHECK(waits >= 10);
  // The pin applies to every processor, and ends by itself.
  const Opinion again = game.ask(device, 7);
  CHECK(again.pins);
  CHECK_FALSE(again.pin_begins);
  CHECK(game.policy.end_temporary_pins(game.now, *game.history).none());
  CHECK(game.policy.end_temporary_pins(game.now + 150 * ms, *game.history) == PageMask::of({7, 1}));
  CHECK_FALSE(game.ask(device, 7).pins);
}

TEST_CASE("neighbours of a page that thrashes come without it, and none come with it") {
  Game game;
  game.fight(40);
  game.now += 2 * ms;  // the thrashing has ended, but the page's history remains
  game.move({40, 1}, host, MoveCause::eviction);
  for (const unsigned page : {0u, 16u, 48u}) REQUIRE(game.touch(device, page));
  CHECK(game.owner(40) == host);
  CHECK(game.owner(63) == device);
}

TEST_CASE("moves that the program requested are no thrashing") {
  const auto [cause, is_copy] = GENERATE(table<MoveCause, bool>({{MoveCause::prefetch, false},
                                                                 {MoveCause::eviction, false},
                                                                 {MoveCause::thrash_pin, false},
                                                                 {MoveCause::fault, true}}));
  Game game;
  for (int i = 0; i < 20; ++i, game.now += 20 * us)
    CHECK_FALSE(game.move({7, 1}, i % 2 == 0 ? device : host, cause, is_copy));
  CHECK(game.ask(host, 7).wait_until_ns == 0);
}

TEST_CASE("a prefetch, or its end, resets the history of thrashing") {
  Game game;
  game.fight(7);
  if (GENERATE(true, false))
    game.move({0, 512}, host, MoveCause::prefetch);
  else
    game.policy.on_release({0, 512}, *game.history);
  for (const Processor p : {device, host}) {
    CHECK(game.ask(p, 7).wait_until_ns == 0);
    game.move({7, 1}, p);
  }
}

TEST_CASE("without detection no history is kept") {
  UvmParameters parameters;
  parameters.detects_thrashing = false;
  Game game(parameters);
  CHECK_FALSE(game.policy.remembers());
  for (int i = 0; i < 20; ++i) game.move({7, 1}, i % 2 == 0 ? device : host);
  CHECK(game.history == nullptr);
}

}  // namespace
}  // namespace wherry::test::uvm_policy_test
