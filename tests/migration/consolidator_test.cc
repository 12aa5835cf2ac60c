// Which blocks get one huge entry in the background, when, and what stays as it is where that is
// not possible.
#include "migration/consolidator.h"

#include "base/clock.h"
#include "support/catch.h"
#include "support/fake_machine.h"

namespace wherry::test::consolidator_test {
namespace {

constexpr Processor device = Processor::device(0);
constexpr PageRun first_part{0, 500};
constexpr PageRun second_part{500, 12};
constexpr BlockIndex index{1};

struct Setup {
  FakeMachine machine{2, 3, 3 * pages_per_block};
  PageEngine engine{machine.memories()};
  AdviceMap advice;
  PinGate pins{advice};
  Consolidator consolidator{engine, machine.blocks(), pins, machine.changers(), 1};
  Block& state = machine.blocks().at(index);

  Setup() { engine.entries().scattered_blocks().open(); }
  ~Setup() { engine.entries().scattered_blocks().close(); }

  void populate(PageRun run) {
    const LockedBlock block(index, state);
    Reservation reservation;
    REQUIRE(reservation.try_grow(engine.at(device).capacity, run.count));
    REQUIRE(engine.populate(block, run, device, reservation));
  }
  void populate_in_parts() {
    populate(first_part);
    populate(second_part);
  }
  void duplicate(PageRun run) {
    const LockedBlock block(index, state);
    Reservation reservation;
    REQUIRE(reservation.try_grow(engine.at(Processor::host()).capacity, run.count));
    REQUIRE(engine.duplicate(block, run, device, Processor::host(), reservation));
  }
  // The host maps the device's pages.
  void map_remotely(PageRun run) {
    const PageSpan span = span_of(index, run);
    const LockedBlock block(index, state);
    block.state.switch_begun(Processor::host(), run);
    REQUIRE(machine.at(0).change_view(span, device) == 0);
    block.state.switched(Processor::host(), run, device);
    REQUIRE(engine.map(block, run, Processor::host()));
  }
  bool host_maps(PageRun run) {
    const PageSpan span = span_of(index, run);
    for (PageIndex page = span.first; page < span.end(); ++page)
      if (!machine.at(0).maps_writable(page)) return false;
    return true;
  }
  bool is_noted() {
    const LockGuard guard(state.lock);
    return state.is_noted_as_scattered;
  }
  bool is_entered_whole() {
    const LockGuard guard(state.lock);
    return (state.entered_whole & device.bit()) != 0;
  }
  bool maps_all_writable() {
    const LockGuard guard(state.lock);
    if (state.at(device).mapped.count() != pages_per_block) return false;
    for (unsigned page = 0; page < pages_per_block; ++page)
      if (!machine.at(1).maps_writable(span_of(index, {page, 1}).first)) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("a block is noted when its last part comes, and gets one entry") {
  Setup s;
  s.populate(first_part);
  CHECK_FALSE(s.is_noted());
  const std::uint64_t before = now_ns();
  s.populate(second_part);
  CHECK(s.is_noted());
  CHECK(s.engine.entries().scattered_blocks().take(0).value().block == index);
  CHECK(now_ns() - before >= ScatteredBlocks::calm_ns);
  CHECK(s.consolidator.consolidate(index));
  CHECK_FALSE(s.is_noted());
  CHECK(s.is_entered_whole());
  CHECK(s.maps_all_writable());
}

TEST_CASE("a block with copies elsewhere is left alone until they are gone") {
  Setup s;
  s.populate_in_parts();
  s.duplicate({3, 1});
  CHECK(s.consolidator.consolidate(index));
  CHECK_FALSE(s.is_entered_whole());
  {
    const LockedBlock block(index, s.state);
    s.engine.collapse(block, {3, 1}, device);
  }
  CHECK(s.is_noted());
  CHECK(s.consolidator.consolidate(index));
  CHECK(s.is_entered_whole());
  CHECK(s.maps_all_writable());
}

TEST_CASE("a block with a pinned page is neither merged nor entered anew until it is unpinned") {
  Setup s;
  s.populate_in_parts();
  const PageSpan pinned = span_of(index, {7, 1});
  s.advice.change(pinned, {AdviceChange::Kind::pinned, {}});
  s.machine.failures.push_back({"merge", OpStatus::incomplete, 0});
  CHECK(s.consolidator.consolidate(index));
  CHECK(s.machine.failures.size() == 1);
  CHECK_FALSE(s.is_entered_whole());
  CHECK(s.maps_all_writable());
  s.machine.failures.clear();
  s.advice.change(pinned, {AdviceChange::Kind::unpinned, {}});
  CHECK(s.consolidator.consolidate(index));
  CHECK(s.is_entered_whole());
}

TEST_CASE("a block whose pages Linux cannot merge stays as it is") {
  Setup s;
  s.populate_in_parts();
  s.machine.failures.push_back({"merge", OpStatus::incomplete, 300});
  CHECK(s.consolidator.consolidate(index));
  CHECK_FALSE(s.is_entered_whole());
  CHECK(s.maps_all_writable());
}

TEST_CASE("entries that a merge removes come back, also if Linux changes mappings meanwhile") {
  for (const bool first_comes_back : {true, false}) {
    Setup s;
    s.populate_in_parts();
    s.machine.failures.push_back({"merge", OpStatus::incomplete, 300});
    if (first_comes_back) s.machine.failures.push_back({"map", OpStatus::ok, 1});
    for (int i = 0; i < PageEntries::attempts_max + 1; ++i)
      s.machine.failures.push_back({"map", OpStatus::incomplete, 0});
    CHECK(s.consolidator.consolidate(index));
    CHECK(s.machine.failures.empty());
    CHECK(s.maps_all_writable());
  }
}

TEST_CASE("a merge that Linux refuses is tried again a few times") {
  Setup s;
  s.populate_in_parts();
  auto noted = s.engine.entries().scattered_blocks().take(0);
  const auto try_in_vain = [&] {
    s.machine.failures.push_back({"merge", OpStatus::incomplete, 0});
    (void)s.consolidator.consolidate(noted->block, noted->attempts);
    CHECK(s.machine.failures.empty());
    CHECK_FALSE(s.is_entered_whole());
    CHECK(s.maps_all_writable());
  };
  for (int attempts = 0; attempts < Consolidator::attempts_max - 1; ++attempts) {
    REQUIRE(noted);
    CHECK(noted->attempts == attempts);
    try_in_vain();
    REQUIRE(s.is_noted());
    noted = s.engine.entries().scattered_blocks().take(0);
  }
  SECTION("and gets one") {
    CHECK(s.consolidator.consolidate(noted->block, noted->attempts));
    CHECK(s.is_entered_whole());
    CHECK(s.maps_all_writable());
  }
  SECTION("and then left as it is") {
    try_in_vain();
  }
  CHECK_FALSE(s.is_noted());
}

// If a part was punched during the merge, Linux would only clear it in the huge page that it is
// making: the part would keep its memory.
TEST_CASE("without userfaultfd, no part of a block leaves during the merge; a whole block does") {
  Setup s;
  s.machine.punch_unmaps = false;
  s.populate_in_parts();
  const auto move_now = [&](PageRun run, MoveCause cause) {
    const LockedBlock block(index, s.state);
    Reservation reservation;
    REQUIRE(reservation.try_grow(s.engine.at(Processor::host()).capacity, run.count));
    return s.engine.migrate(block, run, device, Processor::host(), reservation, cause).status;
  };
  OpStatus by_fault = OpStatus::ok, by_prefetch = OpStatus::ok, whole = OpStatus::held;
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation != "merge") return;
    by_fault = move_now({7, 16}, MoveCause::fault);
    by_prefetch = move_now({7, 16}, MoveCause::prefetch);
    whole = move_now({0, pages_per_block}, MoveCause::prefetch);
  };
  CHECK(s.consolidator.consolidate(index));
  CHECK(by_fault == OpStatus::held);  // the fault is answered where the page is
  CHECK(by_prefetch == OpStatus::incomplete);
  CHECK(whole == OpStatus::ok);
  CHECK(s.machine.at(0).held() == pages_per_block);
}

TEST_CASE("pages that leave during the merge, and that Linux replaces by zeros, are punched") {
  Setup s;
  s.machine.punch_unmaps = false;
  s.populate_in_parts();
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation != "merge") return;
    s.machine.before = nullptr;
    const LockedBlock block(index, s.state);
    Reservation reservation;
    REQUIRE(reservation.try_grow(s.engine.at(Processor::host()).capacity, pages_per_block));
    REQUIRE(
        s.engine.migrate(block, {0, pages_per_block}, device, Processor::host(), reservation, {}));
    for (unsigned page = 0; page < pages_per_block; ++page)
      s.machine.at(1).plant(span_of(index, {page, 1}).first);
  };
  CHECK(s.consolidator.consolidate(index));
  CHECK_FALSE(s.is_entered_whole());
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.machine.at(0).held() == pages_per_block);
}

TEST_CASE("without userfaultfd, the huge entry replaces the small ones at once") {
  Setup s;
  s.machine.punch_unmaps = false;
  s.populate_in_parts();
  CHECK(s.consolidator.consolidate(index));
  CHECK(s.is_entered_whole());
  CHECK(s.maps_all_writable());
}

TEST_CASE("other processors that map pages of the block keep their entries") {
  constexpr PageRun seen{40, 20}, seen_meanwhile{200, 5};
  Setup s;
  s.populate_in_parts();
  s.map_remotely(seen);
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation == "merge") s.map_remotely(seen_meanwhile);
  };
  CHECK(s.consolidator.consolidate(index));
  CHECK(s.is_entered_whole());
  CHECK(s.maps_all_writable());
  for (const PageRun run : {seen, seen_meanwhile}) CHECK(s.host_maps(run));
}

TEST_CASE("pages of a block that changes in the middle keep their entries") {
  static constexpr PageRun gone{500, 12};
  const auto leave = [](Setup& s) {
    const LockedBlock block(index, s.state);
    Reservation reservation;
    REQUIRE(reservation.try_grow(s.engine.at(Processor::host()).capacity, gone.count));
    REQUIRE(
        s.engine.migrate(block, gone, device, Processor::host(), reservation, MoveCause::fault));
  };
  for (const char* const moment : {"merge", "forget"}) {
    CAPTURE(moment);
    Setup s;
    s.populate_in_parts();
    s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
      if (operation == moment) leave(s);
    };
    CHECK(s.consolidator.consolidate(index));
    CHECK_FALSE(s.is_entered_whole());
    for (unsigned page = 0; page < pages_per_block; ++page) {
      const PageIndex there = span_of(index, {page, 1}).first;
      const int owner = page < gone.first ? 1 : 0;
      if (!s.machine.at(owner).maps_writable(there)) FAIL("page " << page);
    }
  }
}

TEST_CASE("where Linux enters no huge page, the small entries come back") {
  Setup s;
  s.populate_in_parts();
  s.machine.failures.push_back({"map whole", OpStatus::incomplete});
  CHECK_FALSE(s.consolidator.consolidate(index));
  CHECK_FALSE(s.is_entered_whole());
  CHECK(s.maps_all_writable());
}

TEST_CASE("a fault in the middle enters the huge page") {
  Setup s;
  s.populate_in_parts();
  {
    const LockedBlock block(index, s.state);
    REQUIRE(s.engine.entries().prepare_huge_entry(block, device));
  }
  const PageSpan span = block_span(index);
  REQUIRE(s.machine.changers()[1]->forget_entries({&span, 1}) == 0);
  {
    const LockedBlock block(index, s.state);
    CHECK(s.engine.entries().enter_whole(block, device));
  }
  CHECK(s.maps_all_writable());
}

TEST_CASE("nothing is noted while no thread takes the blocks") {
  Setup s;
  s.engine.entries().scattered_blocks().close();
  s.populate_in_parts();
  CHECK_FALSE(s.is_noted());
  CHECK_FALSE(s.engine.entries().scattered_blocks().take(0).has_value());
}

TEST_CASE("a thread that used its time at once waits until its share has grown again") {
  constexpr std::uint64_t ms = 1'000'000;
  TimeAllowance one_percent(10, 100 * ms);
  std::uint64_t now = 1'000 * ms;
  CHECK(one_percent.use(60 * ms, now) == now);
  CHECK(one_percent.use(60 * ms, now) == now + 2'000 * ms);
  now += 3'000 * ms;
  CHECK(one_percent.use(10 * ms, now) == now);
  // However long the thread has rested, it may use at most 100 ms at once.
  now += 3'600'000 * ms;
  CHECK(one_percent.use(101 * ms, now) == now + 100 * ms);
}

}  // namespace wherry::test::consolidator_test
