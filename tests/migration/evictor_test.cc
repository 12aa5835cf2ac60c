// Evictions on a simulated machine: which pages leave and which stay, which are copied, and what is
// returned if nothing can leave.
#include "migration/evictor.h"

#include <thread>

#include "migration/background_evictor.h"
#include "support/catch.h"
#include "support/service_setup.h"

namespace wherry::test::evictor_test {
namespace {

struct Setup : EvictorSetup {
  explicit Setup(std::uint64_t blocks = 8, std::uint64_t capacity_blocks = 4)
      : EvictorSetup(blocks, capacity_blocks * pages_per_block) {}

  Capacity& capacity(Processor p) { return machine.memory(p.index).capacity; }
  // Creates pages of one block at p.
  void populate(std::uint64_t number, PageRun run, Processor p) {
    Block& block = machine.blocks().at({number});
    const LockedBlock locked({number}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(capacity(p), run.count));
    REQUIRE(engine.populate(locked, run, p, reservation));
  }
  void duplicate(std::uint64_t number, PageRun run, Processor from, Processor to) {
    Block& block = machine.blocks().at({number});
    const LockedBlock locked({number}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(capacity(to), run.count));
    REQUIRE(engine.duplicate(locked, run, from, to, reservation));
  }
  void fill(Processor p, std::uint64_t blocks) {
    for (std::uint64_t number = 0; number < blocks; ++number) populate(number, all, p);
  }
  std::size_t copies_made() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        machine.log, [](const std::string& line) { return line.starts_with("copy"); }));
  }
  std::vector<Eviction> evictions() {
    std::vector<Eviction> taken(100);
    taken.resize(evictor.log().take(taken));
    return taken;
  }

  static constexpr PageRun all{0, pages_per_block};
};

}  // namespace

TEST_CASE("whole blocks are evicted, and the eviction names the page that caused it") {
  Setup s;
  s.fill(device, 4);
  s.machine.at(1).set_value({3}, 77);
  Reservation reservation;
  REQUIRE(s.evictor.reserve({device, 16, {1234}}, reservation) == OpStatus::ok);
  CHECK(reservation.pages() == 16);
  CHECK(s.machine.at(1).held() == 3 * pages_per_block);
  CHECK(s.machine.at(0).held() == pages_per_block);
  const auto evictions = s.evictions();
  REQUIRE(evictions.size() == 1);
  CHECK(s.machine.at(0).holds(block_span(evictions[0].block).first));
  CHECK(evictions[0].moved == pages_per_block);
  CHECK(evictions[0].dropped == 0);
  CHECK(evictions[0].from == device);
  CHECK(evictions[0].for_page.value == 1234);
  CHECK_FALSE(evictions[0].background);
  CHECK(s.machine.memory(1).counters.evicted == pages_per_block);
}

TEST_CASE(
    "pages with copies elsewhere are dropped without a copy, and only at the pool under pressure") {
  Setup s;
  s.fill(host, 4);
  for (std::uint64_t number = 0; number < 4; ++number) {
    s.duplicate(number, Setup::all, host, device);
    s.duplicate(number, Setup::all, host, other_device);
  }
  const std::size_t copied = s.copies_made();
  Reservation reservation;
  REQUIRE(s.evictor.reserve({device, 1, {0}}, reservation) == OpStatus::ok);
  CHECK(s.copies_made() == copied);
  CHECK(s.machine.at(1).held() == 3 * pages_per_block);
  CHECK(s.machine.at(2).held() == 4 * pages_per_block);
  CHECK(s.machine.at(0).held() == 4 * pages_per_block);
  const auto evictions = s.evictions();
  REQUIRE(evictions.size() == 1);
  CHECK(evictions[0].dropped == pages_per_block);
  CHECK(evictions[0].moved == 0);
}

TEST_CASE("a mostly full block without gaps is marked to return as a whole, others are not") {
  const auto marked = [](const std::vector<PageRun>& runs) {
    Setup s;
    for (const PageRun run : runs) s.populate(0, run, device);
    REQUIRE(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
    CHECK(s.machine.at(1).held() == 0);
    Block& block = s.machine.blocks().at({0});
    const LockGuard guard(block.lock);
    return (block.evicted_from & device.bit()) != 0;
  };
  CHECK(marked({Setup::all}));
  CHECK(marked({{100, 300}}));
  CHECK_FALSE(marked({{100, 200}}));
  CHECK_FALSE(marked({{0, 16}, {32, 400}}));
  CHECK_FALSE(marked({{0, 300}, {400, 40}}));
}

TEST_CASE("a block with pages in a transfer is not evicted, the next one is") {
  Setup s;
  s.fill(device, 4);
  const BlockIndex first = s.engine.resident_blocks(device).victim().value();
  Block& block = s.machine.blocks().at(first);
  {
    const LockGuard guard(block.lock);
    block.transfer_begun({100, 1});
  }
  CHECK(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  CHECK(s.machine.at(1).holds(block_span(first).first));
  CHECK(s.machine.at(1).held() == 3 * pages_per_block);
  {
    const LockGuard guard(block.lock);
    block.transfer_ended({100, 1});
  }
}

TEST_CASE("if all blocks are in transfers the result is to try again") {
  Setup s;
  s.fill(device, 4);
  for (std::uint64_t number = 0; number < 4; ++number) {
    Block& block = s.machine.blocks().at({number});
    const LockGuard guard(block.lock);
    block.transfer_begun({5, 1});
  }
  Reservation reservation;
  CHECK(s.evictor.reserve({device, 1, {0}}, reservation) == OpStatus::incomplete);
  CHECK(s.machine.at(1).held() == 4 * pages_per_block);
}

TEST_CASE(
    "blocks that the same round prefetched stay, and the result says if there are no others") {
  Setup s;
  s.fill(device, 4);
  for (std::uint64_t number = 0; number < 4; ++number) {
    Block& block = s.machine.blocks().at({number});
    const LockGuard guard(block.lock);
    block.prefetched_in = number == 2 ? 8 : 9;
  }
  Reservation reservation;
  REQUIRE(s.evictor.reserve({device, pages_per_block, {0}, 9}, reservation) == OpStatus::ok);
  CHECK_FALSE(s.machine.at(1).holds({2 * pages_per_block}));
  CHECK(s.evictor.reserve({device, pages_per_block + 1, {0}, 9}, reservation) == OpStatus::absent);
  CHECK(s.machine.at(1).held() == 3 * pages_per_block);
  CHECK(s.evictor.reserve({device, pages_per_block + 1, {0}, 10}, reservation) == OpStatus::ok);
  // An evicted block no longer counts as prefetched.
  Block& block = s.machine.blocks().at({2});
  const LockGuard guard(block.lock);
  CHECK(block.prefetched_in == 0);
}

TEST_CASE("blocks that cannot leave do not hide those that can, for any number of evictions") {
  // The device has space for 16 blocks. 14 are pinned; six others take turns in the space for two.
  constexpr std::uint64_t blocks = 20;
  constexpr std::uint64_t stuck = 14;
  Setup s(blocks, 16);
  s.fill(device, stuck);
  s.advice.change({{0}, stuck * pages_per_block}, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t number = stuck; number < blocks; ++number) {
    for (int round = 0; round < 20; ++round) {
      Reservation reservation;
      if (s.capacity(device).pages() - s.capacity(device).reserved() < pages_per_block)
        REQUIRE(s.evictor.reserve({device, pages_per_block, {number}}, reservation) ==
                OpStatus::ok);
      reservation = Reservation();
      const std::uint64_t next =
          stuck + (number + static_cast<std::uint64_t>(round)) % (blocks - stuck);
      Block& block = s.machine.blocks().at({next});
      const LockedBlock locked({next}, block);
      if (!locked.state.at(device).resident.none()) continue;
      REQUIRE(reservation.try_grow(s.capacity(device), pages_per_block));
      if (!locked.state.at(host).resident.none())
        REQUIRE(s.engine.migrate(locked, Setup::all, host, device, reservation, MoveCause::fault));
      else
        REQUIRE(s.engine.populate(locked, Setup::all, device, reservation));
    }
  }
  for (std::uint64_t number = 0; number < stuck; ++number)
    CHECK(s.machine.at(1).holds({number * pages_per_block}));
}

TEST_CASE("a request for more than the pool can ever hold is refused at once") {
  Setup s;
  s.fill(device, 1);
  Reservation reservation;
  CHECK(s.evictor.reserve({device, 4 * pages_per_block + 1, {0}}, reservation) == OpStatus::absent);
  CHECK(s.machine.at(1).held() == pages_per_block);
}

TEST_CASE("space reserved by others is waited for") {
  Setup s;
  Reservation theirs;
  REQUIRE(theirs.try_grow(s.capacity(device), 4 * pages_per_block));
  Reservation reservation;
  CHECK(s.evictor.reserve({device, 1, {0}}, reservation) == OpStatus::incomplete);
}

TEST_CASE("pages that an eviction frees go to the oldest waiting request") {
  Setup s;
  s.fill(device, 4);
  Reservation older;
  REQUIRE_FALSE(older.join_line(s.capacity(device), 500));
  Reservation younger;
  CHECK(s.evictor.reserve({device, 16, {0}}, younger) == OpStatus::ok);
  CHECK(younger.pages() == 16);
  // The first evicted block went to the older request, which had not evicted anything itself.
  CHECK(s.machine.at(1).held() == 2 * pages_per_block);
  CHECK(older.try_grow(s.capacity(device), 500));
  CHECK(s.capacity(device).reserved() == 2 * pages_per_block + 516);
}

TEST_CASE("a request that cannot be met reserves nothing") {
  Setup s;
  s.fill(device, 4);
  s.advice.change({{0}, 3 * pages_per_block}, {AdviceChange::Kind::pinned, {}});
  Reservation reservation;
  CHECK(s.evictor.reserve({device, 2 * pages_per_block, {0}}, reservation) == OpStatus::absent);
  CHECK(reservation.pages() == 0);
  CHECK(s.capacity(device).reserved() == 3 * pages_per_block);
  CHECK(s.capacity(device).try_reserve(pages_per_block));
}

TEST_CASE("an eviction that stops early continues with the next call, and nothing is lost") {
  Setup s;
  s.fill(device, 4);
  for (std::uint64_t page = 0; page < 4 * pages_per_block; ++page)
    s.machine.at(1).set_value({page}, page);
  s.backend_state.mishaps.push_back({OpStatus::no_memory, 0});
  s.machine.failures.push_back({"copy", OpStatus::no_memory, 5});
  Reservation reservation;
  CHECK(s.evictor.reserve({device, 16, {0}}, reservation) == OpStatus::no_memory);
  for (std::uint64_t number = 0; number < 4; ++number) {
    Block& block = s.machine.blocks().at({number});
    const LockGuard guard(block.lock);
    CHECK(block.evicted_from == 0);
  }
  CHECK(s.machine.at(0).held() == 5);
  REQUIRE(s.evictor.reserve({device, 16, {0}}, reservation) == OpStatus::ok);
  for (std::uint64_t page = 0; page < 4 * pages_per_block; ++page) {
    const int owner = s.machine.at(0).holds({page}) ? 0 : 1;
    REQUIRE(s.machine.at(owner).value({page}) == page);
    REQUIRE_FALSE(s.machine.at(1 - owner).holds({page}));
  }
}

TEST_CASE("a block that leaves is not locked meanwhile, and another request evicts another block") {
  Setup s;
  s.fill(device, 4);
  std::vector<BlockIndex> leaving;
  s.backend_state.during_page_transfer = [&](const PageTransfer& transfer) {
    leaving.push_back(block_of(transfer.span.first));
    if (leaving.size() != 1) return;
    Block& block = s.machine.blocks().at(leaving.front());
    {
      const LockGuard guard(block.lock);
      CHECK(block.in_flight().count() == pages_per_block);
    }
    CHECK(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  };
  CHECK(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  REQUIRE(leaving.size() == 2);
  CHECK(leaving[0] != leaving[1]);
  CHECK(s.machine.at(1).held() == 2 * pages_per_block);
  CHECK(s.machine.at(0).held() == 2 * pages_per_block);
}

TEST_CASE("a block whose transfer fails is moved in pieces, with its contents") {
  const OpStatus why = GENERATE(OpStatus::no_memory, OpStatus::incomplete);
  Setup s;
  s.fill(device, 4);
  for (std::uint64_t page = 0; page < 4 * pages_per_block; ++page)
    s.machine.at(1).set_value({page}, page);
  s.backend_state.mishaps.push_back({why, 100});
  REQUIRE(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  CHECK(s.backend_state.transfers == 1);
  CHECK(s.machine.at(0).held() == pages_per_block);
  const PageSpan left = block_span(s.evictions().front().block);
  for (PageIndex page = left.first; page < left.end(); ++page)
    REQUIRE(s.machine.at(0).value(page) == page.value);
}

TEST_CASE("if no copy backend can be created, a block is moved in pieces") {
  Setup s;
  s.fill(device, 4);
  Evictor evictor(
      s.engine, s.machine.blocks(), s.effects,
      []() -> std::unique_ptr<CopyBackend> { throw std::bad_alloc(); }, 32);
  REQUIRE(evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  CHECK(s.machine.at(0).held() == pages_per_block);
}

TEST_CASE("small pools keep nothing free, larger ones at least a block and a sixty-fourth") {
  CHECK(Watermarks::of(8 * pages_per_block).low == 0);
  CHECK(Watermarks::of(16 * pages_per_block).low == pages_per_block);
  CHECK(Watermarks::of(16 * pages_per_block).high == 2 * pages_per_block);
  CHECK(Watermarks::of(6400 * pages_per_block).low == 100 * pages_per_block);
}

TEST_CASE("the background thread evicts from a pool that gets full, for the page that came last") {
  Setup s(20, 16);
  const AdviceMap advice;
  PinGate pins(advice);
  AccessSampler sampler(s.engine, s.machine.blocks(), pins, s.machine.changers());
  std::atomic<int> asked = 0;
  const auto give_up = [&](Processor p) {
    if (p == device) ++asked;
    return false;
  };
  BackgroundEvictor background(s.engine, s.evictor, sampler, give_up, [] { return true; });
  background.start();
  // Fills the last block, too. It does not matter whether there is still space for it, or the
  // background thread evicts before.
  s.fill(device, 16);
  constexpr std::uint64_t expected = 14 * pages_per_block;
  for (int waited_ms = 0; s.capacity(device).reserved() > expected && waited_ms < 60'000;
       ++waited_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(s.capacity(device).reserved() <= expected);
  CHECK(s.capacity(device).reserved() >= expected - pages_per_block);
  const auto evictions = s.evictions();
  CHECK(asked > 0);
  REQUIRE_FALSE(evictions.empty());
  for (const Eviction& eviction : evictions) {
    CHECK(eviction.background);
    CHECK(eviction.from == device);
    CHECK(eviction.for_page.value < 16 * pages_per_block);
  }
}

}  // namespace wherry::test::evictor_test
