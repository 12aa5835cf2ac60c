// A simulated machine with a page engine, and one block of its pages. For tests of the engine and
// of its parts.
#pragma once

#include "migration/page_engine.h"
#include "support/catch.h"
#include "support/fake_machine.h"
#include "support/processors.h"

namespace wherry::test {

inline std::uint64_t fake_now_ns = 1'000'000;
inline std::uint64_t fake_clock() {
  return fake_now_ns;
}

struct EngineSetup {
  FakeMachine machine{3, 2, 512};
  PageEngine engine{machine.memories(), nullptr, nullptr, fake_clock};
  Block& block = machine.blocks().at({0});

  OpResult populate(PageRun run, Processor p) {
    const LockedBlock locked({0}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(machine.memory(p.index).capacity, run.count));
    return engine.populate(locked, run, p, reservation);
  }
  OpResult migrate(PageRun run, Processor from, Processor to) {
    const LockedBlock locked({0}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(machine.memory(to.index).capacity, run.count));
    return engine.migrate(locked, run, from, to, reservation, MoveCause::fault);
  }
  OpResult duplicate(PageRun run, Processor from, Processor to) {
    const LockedBlock locked({0}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(machine.memory(to.index).capacity, run.count));
    return engine.duplicate(locked, run, from, to, reservation);
  }
  void collapse(PageRun run, Processor keeper) {
    const LockedBlock locked({0}, block);
    engine.collapse(locked, run, keeper);
  }
  // Makes the processor's view show the owner's pool, and maps the pages there.
  OpResult see(PageRun run, Processor p, Processor owner) {
    const LockedBlock locked({0}, block);
    locked.state.switch_begun(p, run);
    REQUIRE(machine.at(p.index).change_view(span_of({0}, run), owner) == 0);
    locked.state.switched(p, run, owner);
    return engine.map(locked, run, p);
  }
  // Checks that the page state agrees with the machine.
  void check() {
    const LockGuard guard(block.lock);
    block.check_invariants();
    for (int p = 0; p < 3; ++p) {
      const ProcessorPages& state = block.at(Processor{p});
      for (unsigned page = 0; page < pages_per_block; ++page) {
        REQUIRE(state.resident.test(page) == machine.at(p).holds({page}));
        REQUIRE(block.view(Processor{p}, page).index == machine.at(p).view({page}));
        if (machine.at(p).maps({page})) REQUIRE(state.mapped.test(page));
        if (machine.at(p).maps_writable({page})) REQUIRE_FALSE(state.write_protected.test(page));
      }
      REQUIRE(machine.memory(p).capacity.reserved() == machine.at(p).held());
      if (p != 0)
        REQUIRE(engine.resident_blocks(Processor{p}).victim().has_value() ==
                (machine.at(p).held() != 0));
    }
  }
};

}  // namespace wherry::test
