// The thrashing rules, case by case, with the test's clock.
#include "policy/thrashing.h"

#include "policy/policy_setup.h"
#include "support/catch.h"

namespace wherry::test::thrashing_test {
namespace {

using namespace wherry::impl;
using Kind = Thrashing::Hint::Kind;

constexpr unsigned page = 7;

struct Game {
  ThrashingParameters parameters{};
  AccessCosts access_costs = far_reach();
  Thrashing thrashing{};
  std::uint64_t now = 10 * ms;
  Processor at = host;

  bool move_to(Processor to, unsigned moved_page = page) {
    at = to;
    return thrashing.moved({moved_page, 1}, to, now, parameters);
  }
  Thrashing::Hint ask(Processor faulting_processor, std::optional<Processor> preferred = {}) {
    return thrashing.hint({page, faulting_processor, now, at, preferred}, access_costs, parameters);
  }
  // Moves the page back and forth until it thrashes. It is at the device then.
  void fight() {
    for (int i = 0; i < 5; ++i, now += 20 * us) move_to(i % 2 == 0 ? device : host);
    REQUIRE(thrashing.thrashing().test(page));
  }
  // An access, as the fault service would answer it. Returns true if the processor has the page or
  // maps it.
  bool touch(Processor faulting_processor) {
    const Thrashing::Hint hint = ask(faulting_processor);
    if (hint.kind == Kind::throttle) {
      CHECK(hint.until_ns >= now);
      return false;
    }
    const Processor to = hint.kind == Kind::pin ? hint.at : faulting_processor;
    if (!(at == to)) move_to(to);
    return true;
  }
};

TEST_CASE("two processors that take a page from each other thrash with the fifth move") {
  Game game;
  for (int i = 1; i <= 5; ++i, game.now += 100 * us) {
    CHECK(game.ask(host).kind == Kind::none);
    CHECK(game.move_to(i % 2 == 0 ? host : device) == (i == 5));
    CHECK(game.thrashing.thrashing().test(page) == (i == 5));
  }
  CHECK_FALSE(game.move_to(host));  // it thrashed before already
  CHECK(game.thrashing.thrashing().count() == 1);
}

TEST_CASE("slow moves are no thrashing, nor are moves to one processor") {
  Game game;
  for (int i = 0; i < 50; ++i, game.now += game.parameters.lapse_ns + 1)
    CHECK_FALSE(game.move_to(i % 2 == 0 ? device : host));
  game.now += 10 * ms;
  for (int i = 0; i < 50; ++i, game.now += us) CHECK_FALSE(game.move_to(device));
  CHECK(game.thrashing.thrashing().none());
}

TEST_CASE("after a pause moves are counted from the first again") {
  Game game;
  for (int i = 0; i < 4; ++i, game.now += 10 * us) game.move_to(i % 2 == 0 ? device : host);
  game.now += game.parameters.lapse_ns;
  // The block has history now, so three moves after the first suffice.
  for (int i = 1; i <= 4; ++i, game.now += 10 * us)
    CHECK(game.move_to(i % 2 == 0 ? host : device) == (i == 4));
}

TEST_CASE("the page belongs to one processor at a time, and to none twice in a row") {
  Game game;
  game.fight();
  CHECK(game.touch(host));  // starts a period of its own
  const std::uint64_t end = game.now + game.parameters.nap_ns;
  game.now += 10 * us;
  const Thrashing::Hint waits = game.ask(device);
  CHECK(waits.kind == Kind::throttle);
  CHECK(waits.until_ns == end);
  CHECK(game.touch(host));

  // After the period the host asks first, but has had its turn: the next other processor is served.
  game.now = end + us;
  CHECK(game.ask(host).kind == Kind::throttle);
  CHECK(game.touch(device));
  game.now += 10 * us;
  CHECK(game.ask(host).kind == Kind::throttle);

  // The host waited, and asks first: it is its turn.
  game.now += game.parameters.nap_ns + us;
  CHECK(game.touch(host));
  game.now += 10 * us;
  CHECK_FALSE(game.touch(device));
}

TEST_CASE(
    "after ten throttles the page is pinned, and all processors that wanted it map it there") {
  Game game;
  game.fight();
  int throttled = 0;
  Thrashing::Hint pinned;
  for (int i = 0; i < 100 && pinned.kind != Kind::pin; ++i) {
    const Processor first = i % 2 == 0 ? host : device;
    const Processor second = i % 2 == 0 ? device : host;
    const Thrashing::Hint hint = game.ask(first);
    if (hint.kind == Kind::pin) {
      pinned = hint;
      CHECK(hint.at == first);
      break;
    }
    REQUIRE(hint.kind == Kind::none);
    game.move_to(first);
    game.now += 10 * us;
    REQUIRE(game.ask(second).kind == Kind::throttle);
    ++throttled;
    game.now += game.parameters.nap_ns;
  }
  REQUIRE(pinned.kind == Kind::pin);
  CHECK(throttled == 10);
  CHECK(pinned.until_ns == game.now + game.parameters.pin_ns);
  CHECK(game.thrashing.pinned() == PageMask::of({page, 1}));

  // The other processor maps it there, too, and does not wait.
  game.now += 10 * us;
  const Thrashing::Hint same = game.ask(pinned.at == host ? device : host);
  CHECK(same.kind == Kind::pin);
  CHECK(same.at == pinned.at);
  CHECK(same.until_ns == pinned.until_ns);
}

TEST_CASE("a third processor that accesses a pinned page maps it where it is, and the page stays") {
  Game game;
  game.fight();
  while (game.thrashing.pinned().none()) {
    game.touch(game.at == host ? device : host);
    game.now += game.parameters.nap_ns / 4;
    REQUIRE(game.now < 1000 * ms);
  }
  const Processor home = game.at;
  for (int i = 0; i < 20; ++i, game.now += game.parameters.nap_ns + us)
    for (const Processor p : {other_device, host, device}) {
      const Thrashing::Hint hint = game.ask(p);
      REQUIRE(hint.kind == Kind::pin);
      CHECK(hint.at == home);
      CHECK_FALSE(hint.begins);
    }
}

TEST_CASE("however long the naps, each contending processor gets the page in turn") {
  Game game;
  game.parameters.nap_ns = 100 * game.parameters.lapse_ns;
  game.fight();
  int turns[2] = {};
  for (int period = 0; period < 6; ++period, game.now += game.parameters.nap_ns + us)
    for (const Processor p : {host, device})
      if (game.touch(p)) ++turns[p.index];
  CHECK(turns[0] == 3);
  CHECK(turns[1] == 3);
}

TEST_CASE("a pin ends after its time, and the page may thrash again") {
  Game game;
  game.parameters.pin_threshold = 1;
  game.fight();
  CHECK(game.touch(host));
  game.now += us;
  CHECK_FALSE(game.touch(device));
  game.now += game.parameters.nap_ns;
  const Thrashing::Hint hint = game.ask(device);
  REQUIRE(hint.kind == Kind::pin);
  CHECK(game.thrashing.unpin(hint.until_ns - 1).none());
  CHECK(game.thrashing.unpin(hint.until_ns) == PageMask::of({page, 1}));
  CHECK(game.thrashing.pinned().none());
  game.now = hint.until_ns;
  CHECK(game.ask(host).kind == Kind::none);
  CHECK(game.thrashing.thrashing().none());
}

TEST_CASE("with a pin time of 0 the page stays pinned") {
  Game game;
  game.parameters.pin_threshold = 1;
  game.parameters.pin_ns = 0;
  game.fight();
  CHECK(game.touch(host));
  CHECK_FALSE(game.touch(device));
  game.now += game.parameters.nap_ns + us;
  REQUIRE(game.ask(device).kind == Kind::pin);
  game.now += 3600 * 1000 * ms;
  CHECK(game.thrashing.unpin(game.now).none());
  CHECK(game.ask(host).kind == Kind::pin);
}

TEST_CASE("a preferred location that all processors can map gets the page at once") {
  Game game;
  game.fight();
  for (const Processor home : {host, device, other_device}) {
    const Thrashing::Hint hint = game.ask(host, home);
    CHECK(hint.kind == Kind::pin);
    CHECK(hint.at == home);
  }
}

TEST_CASE("processors with close memory share the page where it is, at once") {
  Game game;
  game.access_costs.close.fill(~ProcessorMask{0});
  game.fight();
  const Thrashing::Hint hint = game.ask(host);
  CHECK(hint.kind == Kind::pin);
  CHECK(hint.at == device);
}

TEST_CASE("pages that others cannot map are pinned only at the processor's turn after ten waits") {
  Game game;
  game.access_costs.maps[0] = host.bit();  // the host can map only its own memory
  game.fight();
  CHECK(game.ask(device, device).kind == Kind::none);  // it is its turn
  game.now += us;
  CHECK(game.ask(host, device).kind == Kind::throttle);
}

TEST_CASE("after a second without thrashing the block's history is reset, at most four times") {
  Game game;
  for (unsigned i = 0; i <= game.parameters.resets_max; ++i) {
    game.fight();
    game.now += game.parameters.epoch_ns + ms;
    CHECK(game.ask(host).kind == Kind::none);
    CHECK(game.thrashing.thrashing().none() == (i < game.parameters.resets_max));
  }
}

TEST_CASE("a pinned page keeps its block's history") {
  Game game;
  game.access_costs.close.fill(~ProcessorMask{0});
  game.parameters.pin_ns = 10 * game.parameters.epoch_ns;
  game.fight();
  REQUIRE(game.ask(host).kind == Kind::pin);
  game.now += 2 * game.parameters.epoch_ns;
  CHECK(game.ask(device).kind == Kind::pin);
}

TEST_CASE("the program's own placement resets the history") {
  Game game;
  game.fight();
  game.thrashing.forget({page, 1});
  CHECK(game.thrashing.thrashing().none());
  CHECK(game.ask(host).kind == Kind::none);
}

TEST_CASE("pages of a block thrash independently") {
  Game game;
  game.fight();
  CHECK(game.thrashing
            .hint({page + 1, host, game.now, device, {}}, game.access_costs, game.parameters)
            .kind == Kind::none);
  CHECK_FALSE(game.thrashing.moved({page + 1, 3}, host, game.now, game.parameters));
}

}  // namespace
}  // namespace wherry::test::thrashing_test
