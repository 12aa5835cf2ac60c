// The page engine on a simulated machine: the order of steps, and every way in which a step can
// stop early.
#include "migration/page_engine.h"

#include <algorithm>
#include <random>

#include "migration/engine_setup.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::page_engine_test {
namespace {

using Setup = EngineSetup;

}  // namespace

TEST_CASE("a first touch creates zero pages that are mapped writable") {
  Setup s;
  s.machine.at(0).set_value({3}, 77);
  const OpResult result = s.populate({0, 16}, host);
  CHECK(result.status == OpStatus::ok);
  CHECK(result.bytes == 16 * page_size);
  CHECK(s.machine.at(0).maps_writable({15}));
  CHECK(s.machine.at(0).value({3}) == 0);
  CHECK(s.machine.memory(0).counters.populated == 16);
  s.check();
}

TEST_CASE("a move protects, copies, punches, then unprotects, in this order") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  s.machine.at(0).set_value({5}, 42);
  s.machine.log.clear();
  REQUIRE(s.migrate({0, 16}, host, device));
  CHECK(s.machine.log == std::vector<std::string>{"protect 0: 0+16", "copy 1: 0+16",
                                                  "punch 0: 0+16", "unprotect 1: 0+16"});
  CHECK(s.machine.at(1).value({5}) == 42);
  CHECK(s.machine.at(1).maps_writable({5}));
  CHECK_FALSE(s.machine.at(0).holds({5}));
  CHECK(s.machine.memory(0).counters.migrated_out == 16);
  CHECK(s.machine.memory(1).counters.migrated_in == 16);
  CHECK(s.machine.memory(1).counters.bytes_copied == 16 * page_size);
  s.check();
}

TEST_CASE("a copy that stops early is continued where it stopped") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  for (unsigned page = 0; page < 16; ++page) s.machine.at(0).set_value({page}, page + 1);
  s.machine.failures = {{"copy", OpStatus::incomplete, 3},
                        {"copy", OpStatus::incomplete, 0},
                        {"copy", OpStatus::incomplete, 5}};
  CHECK(s.migrate({0, 16}, host, device).status == OpStatus::ok);
  for (unsigned page = 0; page < 16; ++page) CHECK(s.machine.at(1).value({page}) == page + 1);
  s.check();
}

TEST_CASE(
    "a page in the target pool that the page state lacks is removed, not taken for the copy") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  s.machine.at(0).set_value({7}, 1234);
  s.machine.at(1).plant({7});
  s.machine.at(1).set_value({7}, 666);
  CHECK(s.migrate({0, 16}, host, device).status == OpStatus::ok);
  CHECK(s.machine.at(1).value({7}) == 1234);
  CHECK(s.machine.memory(1).counters.false_residency == 1);
  s.check();
}

TEST_CASE("a first touch removes a page that the page state lacks") {
  Setup s;
  s.machine.at(1).plant({2});
  s.machine.at(1).set_value({2}, 666);
  CHECK(s.populate({0, 16}, device).status == OpStatus::ok);
  CHECK(s.machine.at(1).value({2}) == 0);
  s.check();
}

TEST_CASE(
    "a move that runs out of memory keeps the pages that arrived, and the rest here, all "
    "writable") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  for (unsigned page = 0; page < 16; ++page) s.machine.at(0).set_value({page}, page + 1);
  s.machine.failures = {{"copy", OpStatus::no_memory, 6}};
  const OpResult result = s.migrate({0, 16}, host, device);
  CHECK(result.status == OpStatus::no_memory);
  CHECK(result.bytes == 6 * page_size);
  for (unsigned page = 0; page < 16; ++page) {
    FakeProcessor& owner = s.machine.at(page < 6 ? 1 : 0);
    CHECK(owner.value({page}) == page + 1);
    CHECK(owner.maps_writable({page}));
  }
  s.check();
}

TEST_CASE("a move to a process that dies during it loses nothing") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  s.machine.at(0).set_value({2}, 99);
  const std::uint64_t already_there = GENERATE(0u, 4u);
  s.machine.failures = {{"copy", OpStatus::process_gone, already_there}};
  const OpResult result = s.migrate({0, 16}, host, device);
  CHECK(result.status == OpStatus::process_gone);
  CHECK(result.bytes == 0);
  CHECK(s.machine.at(0).value({2}) == 99);
  CHECK(s.machine.at(0).maps_writable({2}));
  CHECK(s.machine.at(1).held() == 0);
  s.check();
}

TEST_CASE("pages of a dead process move to the host") {
  Setup s;
  REQUIRE(s.populate({0, 16}, device));
  s.machine.at(1).set_value({9}, 4711);
  s.machine.at(1).die();
  CHECK(s.migrate({0, 16}, device, host).status == OpStatus::ok);
  CHECK(s.machine.at(0).value({9}) == 4711);
  CHECK(s.machine.at(0).maps_writable({9}));
  s.check();
}

TEST_CASE("a source that cannot be protected is not copied") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  s.machine.failures = {{"protect", OpStatus::no_memory, 4}};
  CHECK(s.migrate({0, 16}, host, device).status == OpStatus::no_memory);
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(s.machine.at(1).held() == 0);
  s.check();
}

TEST_CASE("a release empties every pool and returns the capacity") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  REQUIRE(s.populate({16, 16}, device));
  REQUIRE(s.populate({32, 16}, Processor::device(1)));
  {
    const LockedBlock locked({0}, s.block);
    s.engine.release(locked, {8, 32});
  }
  CHECK(s.machine.at(0).held() == 8);
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.machine.at(2).held() == 8);
  s.check();
}

TEST_CASE("a copy is made of protected pages, and no processor may write either") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  s.machine.at(0).set_value({5}, 42);
  s.machine.log.clear();
  REQUIRE(s.duplicate({0, 16}, host, device));
  CHECK(s.machine.log == std::vector<std::string>{"protect 0: 0+16", "copy 1: 0+16"});
  CHECK(s.machine.at(0).value({5}) == 42);
  CHECK(s.machine.at(1).value({5}) == 42);
  CHECK(s.machine.at(0).maps({5}));
  CHECK_FALSE(s.machine.at(0).maps_writable({5}));
  CHECK_FALSE(s.machine.at(1).maps_writable({5}));
  CHECK(s.machine.memory(1).counters.duplicated == 16);
  s.check();
  // A second copy finds the pages protected already.
  s.machine.log.clear();
  REQUIRE(s.duplicate({0, 16}, host, Processor::device(1)));
  CHECK(s.machine.log == std::vector<std::string>{"copy 2: 0+16"});
  s.check();
}

TEST_CASE("a collapse drops the other copies first, then allows writes") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  REQUIRE(s.duplicate({4, 4}, host, device));
  REQUIRE(s.duplicate({4, 4}, host, Processor::device(1)));
  s.machine.log.clear();
  s.collapse({4, 4}, device);
  CHECK(s.machine.log ==
        std::vector<std::string>{"punch 0: 4+4", "punch 2: 4+4", "unprotect 1: 4+4"});
  CHECK(s.machine.at(1).maps_writable({4}));
  CHECK_FALSE(s.machine.at(0).holds({4}));
  CHECK(s.machine.at(0).maps({3}));
  CHECK(s.machine.memory(1).counters.collapsed == 4);
  s.check();
}

TEST_CASE("a copy that cannot be made leaves one page, protected until it is written") {
  Setup s;
  REQUIRE(s.populate({0, 4}, host));
  s.machine.failures = {{"copy", OpStatus::no_memory, 1}};
  CHECK(s.duplicate({0, 4}, host, device).status == OpStatus::no_memory);
  CHECK(s.machine.at(1).held() == 1);
  CHECK_FALSE(s.machine.at(0).maps_writable({3}));
  s.check();
  s.collapse({0, 4}, host);
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(s.machine.at(0).maps_writable({3}));
  s.check();
}

TEST_CASE("a remote mapping shows the same frames, writable, and ends when the pages move") {
  Setup s;
  REQUIRE(s.populate({0, 16}, host));
  REQUIRE(s.see({0, 8}, device, host));
  CHECK(s.machine.at(1).maps_writable({7}));
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.machine.memory(1).counters.mapped_remotely == 8);
  s.machine.log.clear();
  REQUIRE(s.migrate({0, 16}, host, Processor::device(1)));
  // Processors that can write the old copy are write-protected first.
  CHECK(s.machine.log == std::vector<std::string>{"protect 0: 0+16", "protect 1: 0+8",
                                                  "copy 2: 0+16", "punch 0: 0+16",
                                                  "unprotect 2: 0+16"});
  CHECK_FALSE(s.machine.at(1).maps({3}));
  s.check();
}

TEST_CASE("pages that come to a pool whose processor views another one are filled, not mapped") {
  Setup s;
  REQUIRE(s.populate({0, 8}, host));
  s.machine.at(0).set_value({2}, 5);
  REQUIRE(s.see({0, 8}, device, host));
  s.machine.log.clear();
  REQUIRE(s.migrate({0, 8}, host, device));
  CHECK(s.machine.log == std::vector<std::string>{"protect 0: 0+8", "protect 1: 0+8", "fill 1: 0+8",
                                                  "punch 0: 0+8"});
  CHECK(s.machine.at(1).value({2}) == 5);
  CHECK_FALSE(s.machine.at(1).maps({2}));
  s.check();
  REQUIRE(s.see({0, 8}, device, device));
  CHECK(s.machine.at(1).maps_writable({2}));
  s.check();
  // Pages that are touched for the first time are filled, and not mapped, too.
  REQUIRE(s.see({16, 4}, device, host).status == OpStatus::absent);
  s.machine.at(1).set_value({17}, 99);
  REQUIRE(s.populate({16, 4}, device));
  CHECK(s.machine.at(1).value({17}) == 0);
  s.check();
}

TEST_CASE("pages that come to the pool of a processor without a process are mapped nowhere") {
  Setup s;
  REQUIRE(s.populate({0, 4}, host));
  s.machine.at(0).set_value({1}, 9);
  s.machine.at(1).die();
  CHECK(s.migrate({0, 4}, host, device).status == OpStatus::process_gone);
  {
    const LockedBlock locked({0}, s.block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(s.machine.memory(1).capacity, 4));
    REQUIRE(
        s.engine.migrate(locked, {0, 4}, host, device, reservation, MoveCause::fault, Entry::none));
  }
  CHECK(s.machine.at(1).value({1}) == 9);
  CHECK_FALSE(s.machine.at(0).holds({1}));
  s.check();
}

TEST_CASE("a copy is mapped write-protected, and given up where Linux cannot do that") {
  Setup s;
  REQUIRE(s.populate({0, 4}, host));
  REQUIRE(s.duplicate({0, 4}, host, device));
  s.machine.at(1).die();
  const LockedBlock locked({0}, s.block);
  locked.state.unmapped(device);
  s.machine.at(1).revive();
  s.machine.failures = {{"map", OpStatus::unsupported, 0}};
  CHECK(s.engine.map(locked, {0, 4}, device).status == OpStatus::incomplete);
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.machine.at(0).held() == 4);
  locked.state.check_invariants();
}

TEST_CASE("if a punch does not change page tables, pages are unmapped before they leave") {
  Setup s;
  s.machine.punch_unmaps = false;
  REQUIRE(s.populate({0, 16}, host));
  REQUIRE(s.see({0, 4}, Processor::device(1), host));
  s.machine.log.clear();
  REQUIRE(s.migrate({0, 16}, host, device));
  CHECK(s.machine.log == std::vector<std::string>{"unmap 0: 0+16", "unmap 2: 0+4", "fill 1: 0+16",
                                                  "punch 0: 0+16", "map 1: 0+16"});
  CHECK(s.machine.at(1).maps_writable({15}));
  s.check();
  REQUIRE(s.duplicate({0, 16}, device, host));
  CHECK(s.machine.at(0).maps({0}));
  s.machine.log.clear();
  s.collapse({0, 16}, device);
  CHECK(s.machine.log ==
        std::vector<std::string>{"unmap 0: 0+16", "punch 0: 0+16", "unprotect 1: 0+16"});
  s.check();
}

TEST_CASE("if a punch does not change page tables, no processor can ever access a hole") {
  Setup s;
  s.machine.punch_unmaps = false;
  std::mt19937_64 random(seed());
  const auto any = [&] { return Processor{static_cast<int>(random() % 3)}; };
  const std::uint64_t steps = scaled(20'000);
  for (std::uint64_t i = 0; i < steps; ++i) {
    const auto first = static_cast<unsigned>(random() % pages_per_block);
    const PageRun run{first, std::min(1 + static_cast<unsigned>(random() % 4),
                                      static_cast<unsigned>(pages_per_block) - first)};
    const Processor p = any();
    const LockedBlock locked({0}, s.block);
    const PageMask wanted = PageMask::of(run);
    Reservation reservation;
    if (p != any() && !reservation.try_grow(s.machine.memory(p.index).capacity, run.count))
      continue;
    if ((wanted - locked.state.absent()).none()) {
      if (reservation.pages() >= run.count) (void)s.engine.populate(locked, run, p, reservation);
      continue;
    }
    const Processor from = any();
    const bool there = (wanted - locked.state.at(from).resident).none();
    const bool alone = there && (wanted & locked.state.resident_beside(from)).none();
    switch (random() % 6) {
      case 0:
        if (alone && from != p && reservation.pages() >= run.count)
          (void)s.engine.migrate(locked, run, from, p, reservation, MoveCause::fault);
        break;
      case 1:
        if (there && (wanted & locked.state.at(p).resident).none() &&
            reservation.pages() >= run.count)
          (void)s.engine.duplicate(locked, run, from, p, reservation);
        break;
      case 2:
        s.engine.collapse(locked, run, p);
        break;
      case 3:
        s.engine.release(locked, run);
        break;
      case 4:
        s.engine.entries().unmap(locked, wanted, p);
        locked.state.switch_begun(p, run);
        REQUIRE(s.machine.at(p.index).change_view(span_of({0}, run), from) == 0);
        locked.state.switched(p, run, from);
        break;
      case 5:
        if ((wanted - (locked.state.viewed(p, from) & locked.state.at(from).resident)).none())
          (void)s.engine.map(locked, run, p);
        break;
    }
    locked.state.check_invariants();
  }
  s.machine.log.clear();
  s.check();
}

// ---- parts of huge pages

namespace {

constexpr PageRun all{0, pages_per_block};
constexpr BlockIndex first_block{0};

// The host holds and maps a whole block, whose pages are one huge page.
struct HugeSetup : Setup {
  explicit HugeSetup(bool held) {
    REQUIRE(populate(all, host).status == OpStatus::ok);
    for (unsigned page = 0; page < pages_per_block; ++page)
      machine.at(0).set_value({page}, 1000 + page);
    machine.at(0).make_huge(first_block, held);
    machine.log.clear();
  }
  bool did(const std::string& operation) const {
    return std::ranges::any_of(
        machine.log, [&](const std::string& line) { return line.starts_with(operation); });
  }
};

}  // namespace

TEST_CASE("a part of a huge page leaves after Linux has split it, and the rest is entered again") {
  HugeSetup s(/*held=*/false);
  const OpResult result = s.migrate({32, 16}, host, device);
  CHECK(result.status == OpStatus::ok);
  CHECK_FALSE(s.machine.at(0).is_huge(first_block));
  CHECK(s.machine.at(1).value({33}) == 1033);
  CHECK(s.machine.at(0).maps_writable({31}));
  CHECK(s.machine.at(0).maps_writable({511}));
  CHECK(s.engine.at(host).counters.held == 0);
  s.check();
}

TEST_CASE("a part of a huge page that somebody holds stays, with its contents and its rights") {
  HugeSetup s(/*held=*/true);
  const OpResult result = s.migrate({32, 16}, host, device);
  CHECK(result.status == OpStatus::held);
  CHECK(result.bytes == 0);
  CHECK(s.engine.at(host).counters.held == 16);
  CHECK(s.machine.at(0).holds({33}));
  CHECK(s.machine.at(0).value({33}) == 1033);
  CHECK(s.machine.at(0).maps_writable({33}));
  CHECK_FALSE(s.machine.at(1).holds({33}));
  CHECK_FALSE(s.did("punch"));
  s.check();

  SECTION("for a while no further attempt is made") {
    s.machine.log.clear();
    CHECK(s.migrate({64, 16}, host, device).status == OpStatus::held);
    CHECK_FALSE(s.did("split"));
    CHECK(s.engine.at(host).counters.held == 16);
  }
  SECTION("a whole block leaves all the same") {
    CHECK(s.migrate(all, host, device).status == OpStatus::ok);
    CHECK(s.machine.at(1).value({33}) == 1033);
    CHECK(s.engine.separator().retry_at(first_block) == 0);
    s.check();
  }
  SECTION("memory that is freed stays, without entries, until it is let go") {
    const LockedBlock locked(first_block, s.block);
    CHECK(s.engine.release(locked, {32, 16}, IfHeld::stay) == PageMask::of({32, 16}));
    CHECK_FALSE(s.machine.at(0).maps({33}));
    CHECK(s.machine.at(0).maps({31}));
    CHECK(locked.state.at(host).resident.test(33));
  }
  SECTION("memory whose contents must go leaves, and its neighbours get new frames") {
    const LockedBlock locked(first_block, s.block);
    CHECK(s.engine.release(locked, {32, 16}, IfHeld::leave).none());
    CHECK(s.did("rebuild"));
    CHECK_FALSE(s.machine.at(0).holds({33}));
    CHECK(s.machine.at(0).value({31}) == 1031);
    CHECK(s.machine.at(0).maps({31}));
  }
}

TEST_CASE("held pages leave once the holder has let go, some time after the refusal") {
  HugeSetup s(/*held=*/true);
  CHECK(s.migrate({32, 16}, host, device).status == OpStatus::held);
  s.machine.at(0).let_go(first_block);
  CHECK(s.migrate({32, 16}, host, device).status == OpStatus::held);
  fake_now_ns = s.engine.separator().retry_at(first_block);
  CHECK(s.migrate({32, 16}, host, device).status == OpStatus::ok);
  CHECK(s.engine.separator().retry_at(first_block) == 0);
  s.check();
}

TEST_CASE("a copy in a held huge page is dropped, and the other copies of its huge page stay") {
  HugeSetup s(/*held=*/false);
  CHECK(s.duplicate(all, host, device).status == OpStatus::ok);
  s.machine.at(1).make_huge(first_block, /*held=*/true);
  s.collapse({32, 16}, host);
  CHECK_FALSE(s.machine.at(1).holds({33}));
  CHECK(s.machine.at(1).holds({31}));
  CHECK(s.machine.at(0).maps_writable({33}));
  CHECK_FALSE(s.machine.at(0).maps_writable({31}));
  s.check();
}

TEST_CASE("copies in a held huge page stay where Linux cannot enter them again") {
  HugeSetup s(/*held=*/true);
  CHECK(s.duplicate({0, 16}, host, device).status == OpStatus::ok);
  s.machine.may_enter_protected = false;
  CHECK(s.migrate({64, 16}, host, device).status == OpStatus::held);
  CHECK(s.machine.at(0).holds({5}));
  CHECK(s.machine.at(0).maps_writable({64}));
  CHECK_FALSE(s.did("rebuild"));
  s.check();
}

TEST_CASE("a huge page is split through the only other page table, or its pages get new frames") {
  HugeSetup s(/*held=*/false);
  CHECK(s.see({0, 64}, device, host).status == OpStatus::ok);
  s.machine.log.clear();
  SECTION("the device alone maps it besides the host") {
    CHECK(s.migrate({32, 16}, host, Processor::device(1)).status == OpStatus::ok);
    CHECK(s.did("split through"));
    CHECK_FALSE(s.did("rebuild"));
  }
  SECTION("the host must not change the device's page table") {
    s.machine.may_split_of_others = false;
    CHECK(s.migrate({32, 16}, host, Processor::device(1)).status == OpStatus::ok);
    CHECK(s.did("rebuild"));
  }
  SECTION("two devices map it") {
    CHECK(s.see({0, 64}, Processor::device(1), host).status == OpStatus::ok);
    CHECK(s.migrate({128, 16}, host, device).status == OpStatus::ok);
    CHECK(s.did("rebuild"));
  }
  CHECK(s.engine.at(host).counters.held == 0);
  CHECK_FALSE(s.machine.at(0).is_huge(first_block));
  CHECK(s.machine.at(0).value({31}) == 1031);
  s.check();
}

TEST_CASE("a block in whose place small entries were made is not taken for one with a huge entry") {
  Setup s;
  REQUIRE(s.populate(all, device));
  {
    const LockGuard guard(s.block.lock);
    s.block.entered_whole = device.bit();
  }
  REQUIRE(s.migrate({0, 128}, device, host));
  {
    // Linux has removed the whole entry; the first fault enters what is left of it.
    const LockGuard guard(s.block.lock);
    CHECK(s.block.entered_whole == device.bit());
  }
  REQUIRE(s.see({0, 128}, device, host));
  const LockGuard guard(s.block.lock);
  CHECK(s.block.entered_whole == 0);
}

TEST_CASE("while other pages of a huge page are in flight, none of it leaves") {
  HugeSetup s(/*held=*/false);
  const LockedBlock locked(first_block, s.block);
  s.engine.begin_byte_transfer(locked, PageMask::of({100, 4}));
  Reservation reservation;
  REQUIRE(reservation.try_grow(s.machine.memory(1).capacity, 16));
  CHECK(s.engine.migrate(locked, {32, 16}, host, device, reservation, MoveCause::fault).status ==
        OpStatus::incomplete);
  s.engine.end_byte_transfer(locked, PageMask::of({100, 4}));
  CHECK(s.engine.migrate(locked, {32, 16}, host, device, reservation, MoveCause::fault).status ==
        OpStatus::ok);
}

TEST_CASE("while the pages that a block lacks arrive, none of it leaves") {
  HugeSetup s(/*held=*/false);
  const LockedBlock locked(first_block, s.block);
  Reservation away, back;
  REQUIRE(away.try_grow(s.machine.memory(1).capacity, 20));
  REQUIRE(back.try_grow(s.machine.memory(0).capacity, 4));
  REQUIRE(s.engine.migrate(locked, {100, 4}, host, device, away, MoveCause::fault).status ==
          OpStatus::ok);
  // Linux may merge the block as soon as the pages are in the host's file, before they count as
  // resident there.
  PageTransfer transfer{PageTransfer::Kind::move, locked.span_of({100, 4}), device, host};
  REQUIRE(s.engine.begin_transfer(locked, transfer) == OpStatus::ok);
  CHECK(s.engine.migrate(locked, {32, 16}, host, device, away, MoveCause::fault).status ==
        OpStatus::incomplete);
  s.engine.abort_transfer(locked, transfer);
  CHECK(s.engine.migrate(locked, {32, 16}, host, device, away, MoveCause::fault).status ==
        OpStatus::ok);
}

TEST_CASE("a transfer of a part that is held when it completes is aborted") {
  HugeSetup s(/*held=*/false);
  const LockedBlock locked(first_block, s.block);
  Reservation reservation;
  REQUIRE(reservation.try_grow(s.machine.memory(1).capacity, 64));
  PageTransfer transfer{PageTransfer::Kind::move, locked.span_of({64, 64}), host, device};
  REQUIRE(s.engine.begin_transfer(locked, transfer) == OpStatus::ok);
  // Linux merges the pages meanwhile, and then somebody holds one.
  s.machine.at(0).make_huge(first_block, /*held=*/true);
  CHECK(s.engine.complete_transfer(locked, transfer, {0, OpStatus::ok, false}, reservation,
                                   Entry::at_home) == OpStatus::held);
  CHECK(locked.state.in_flight().none());
  CHECK(s.machine.at(0).holds({70}));
  CHECK_FALSE(s.machine.at(1).holds({70}));
  CHECK(locked.state.at(host).resident.test(70));
}

TEST_CASE("a part that Linux merged during its transfer is not writable between copy and punch") {
  HugeSetup s(/*held=*/false);
  const PageRun run{64, 64};
  const auto map_at = [&](Processor p) { REQUIRE(s.see({32, 128}, p, host)); };
  const bool device_sees = GENERATE(false, true);
  const bool other_device_sees = GENERATE(false, true);
  s.machine.may_split_of_others = GENERATE(true, false);
  const bool was_whole = GENERATE(false, true);
  CAPTURE(device_sees, other_device_sees, s.machine.may_split_of_others, was_whole);
  if (device_sees) map_at(device);
  if (other_device_sees) map_at(Processor::device(1));
  {
    const LockedBlock locked(first_block, s.block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(s.machine.memory(1).capacity, run.count));
    PageTransfer transfer{PageTransfer::Kind::move, locked.span_of(run), host, device};
    REQUIRE(s.engine.begin_transfer(locked, transfer) == OpStatus::ok);
    REQUIRE(s.machine.at(1).fill(locked.span_of(run), s.machine.at(0).alias({run.first})));
    s.machine.at(0).make_huge(first_block, /*held=*/false);
    if (was_whole) locked.state.entered_whole = host.bit();
    // What is written from now on is not in the copy.
    s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
      CAPTURE(operation);
      for (unsigned page = run.first; page < run.end(); ++page)
        for (int p = 0; p < 3; ++p) REQUIRE_FALSE(s.machine.at(p).maps_writable({page}));
    };
    REQUIRE(s.engine.complete_transfer(locked, transfer, {0, OpStatus::ok, false}, reservation,
                                       Entry::none) == OpStatus::ok);
    s.machine.before = {};
    CHECK(s.machine.at(1).value({run.first}) == 1000 + run.first);
    CHECK_FALSE(s.machine.at(0).holds({run.first}));
    CHECK_FALSE(s.machine.at(0).is_huge(first_block));
  }
  s.check();
}

}  // namespace wherry::test::page_engine_test
