// What page tables show of the pools, on a simulated machine. The order of the engine's steps is in
// page_engine_test.cc, the consolidator's calls are in consolidator_test.cc.
#include "migration/page_entries.h"

#include "migration/engine_setup.h"
#include "support/catch.h"

namespace wherry::test::page_entries_test {
namespace {

using Setup = EngineSetup;

}  // namespace

TEST_CASE("unmapped pages that the processor holds are mapped, and mapped ones are skipped") {
  Setup s;
  REQUIRE(s.populate({0, 8}, device));
  {
    const LockedBlock locked({0}, s.block);
    // Marks all unmapped, like a new process; the fake page table keeps its entries.
    locked.state.unmapped(device);
    CHECK(s.engine.entries().map(locked, {0, 8}, device).status == OpStatus::ok);
    CHECK(locked.state.at(device).mapped == PageMask::of({0, 8}));
  }
  s.check();
}

TEST_CASE("mapping a page that the pool lost is reported as an error") {
  Setup s;
  REQUIRE(s.populate({0, 1}, device));
  REQUIRE(s.machine.at(1).punch({{0}, 1}) == 0);
  const LockedBlock locked({0}, s.block);
  locked.state.unmapped(device);
  CHECK(s.engine.entries().map(locked, {0, 1}, device).status == OpStatus::absent);
  CHECK(locked.state.at(device).mapped.none());
}

TEST_CASE("a mapping that stops early leaves the page state correct") {
  Setup s;
  REQUIRE(s.populate({0, 8}, device));
  const LockedBlock locked({0}, s.block);
  s.machine.at(1).die();
  locked.state.unmapped(device);
  s.machine.at(1).revive();
  s.machine.failures = {{"map", OpStatus::no_memory, 3}};
  CHECK(s.engine.entries().map(locked, {0, 8}, device).status == OpStatus::no_memory);
  CHECK(s.machine.at(1).maps_writable({2}));
  CHECK(locked.state.at(device).mapped == PageMask::of({0, 3}));
  CHECK(locked.state.writers(2) == device.bit());
}

TEST_CASE("a copy that is mapped already is protected if it is not") {
  Setup s;
  REQUIRE(s.populate({0, 1}, host));
  REQUIRE(s.duplicate({0, 1}, host, device));
  const LockedBlock locked({0}, s.block);
  CHECK(s.engine.entries().map(locked, {0, 1}, host).status == OpStatus::ok);
  CHECK(s.machine.log.back() == "protect 0: 0+1");
  CHECK_FALSE(s.machine.at(0).maps_writable({0}));
}

TEST_CASE("copies that Linux cannot enter write-protected stay where they are, without entries") {
  Setup s;
  s.machine.may_enter_protected = false;
  REQUIRE(s.populate({0, 4}, host));
  REQUIRE(s.duplicate({0, 2}, host, device));
  const LockedBlock locked({0}, s.block);
  for (unsigned page = 0; page < 4; ++page) s.machine.at(0).unmap({page});
  locked.state.unmapped(host);
  CHECK(s.engine.entries().map(locked, {0, 4}, host).status == OpStatus::unsupported);
  CHECK(s.machine.at(0).holds({1}));
  CHECK(s.machine.at(1).holds({1}));
  CHECK_FALSE(s.machine.at(0).maps({1}));
  CHECK(s.machine.at(0).maps_writable({2}));
}

TEST_CASE("entries that Linux has removed are entered again, copies write-protected") {
  Setup s;
  REQUIRE(s.populate({0, 4}, host));
  REQUIRE(s.duplicate({0, 2}, host, device));
  const LockedBlock locked({0}, s.block);
  CHECK_FALSE(s.engine.entries().was_taken(locked, 0, host));
  for (unsigned page = 0; page < 4; ++page) s.machine.at(0).unmap({page});
  s.engine.entries().restore(locked, host);
  CHECK(s.machine.at(0).maps({1}));
  CHECK_FALSE(s.machine.at(0).maps_writable({1}));
  CHECK(s.machine.at(0).maps_writable({3}));
  s.machine.at(0).unmap({3});
  CHECK(s.engine.entries().was_taken(locked, 3, host));
  CHECK(s.machine.at(0).maps_writable({3}));
}

TEST_CASE("an entry that comes back writable is noted as such, so that a transfer protects it") {
  Setup s;
  REQUIRE(s.populate({0, 1}, host));
  REQUIRE(s.duplicate({0, 1}, host, device));
  const LockedBlock locked({0}, s.block);
  // The last copy keeps the protection that it had beside the other one.
  CHECK(s.engine.drop(locked, {0, 1}, device) == PageMask::of({0, 1}));
  REQUIRE(locked.state.writers(0) == 0);
  s.machine.at(0).unmap({0});
  REQUIRE(s.engine.entries().was_taken(locked, 0, host));
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(locked.state.writers(0) == host.bit());
}

}  // namespace wherry::test::page_entries_test
