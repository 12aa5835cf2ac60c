// Changes of views on a simulated machine: which runs change, what happens to pages that move
// meanwhile, and when changes are declined.
#include "migration/view_switcher.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "base/clock.h"
#include "support/catch.h"
#include "support/fake_machine.h"

namespace wherry::test::view_switcher_test {
namespace {

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);
constexpr Processor other_device = Processor::device(1);
constexpr int limit_ms = 60'000;
using Wish = ViewSwitcher::Wish;

struct Setup {
  explicit Setup(std::uint64_t budget = 0)
      : switcher(engine, machine.blocks(), machine.changers(), budget) {
    switcher.start();
  }

  FakeMachine machine{3, 2, 512};
  PageEngine engine{machine.memories()};
  Block& block = machine.blocks().at({0});
  ViewSwitcher switcher;

  void populate(PageRun run, Processor p) {
    const LockedBlock locked({0}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(machine.memory(p.index).capacity, run.count));
    REQUIRE(engine.populate(locked, run, p, reservation));
  }
  void migrate(PageRun run, Processor from, Processor to) {
    const LockedBlock locked({0}, block);
    Reservation reservation;
    REQUIRE(reservation.try_grow(machine.memory(to.index).capacity, run.count));
    REQUIRE(engine.migrate(locked, run, from, to, reservation, MoveCause::fault));
  }
  // Requests the change and waits for it. Returns false if it was declined.
  bool request(Processor p, PageRun run, Wish wish) {
    if (!switcher.request(p, {0}, PageMask::of(run), wish)) return false;
    REQUIRE(switcher.wait_until_done(limit_ms));
    return true;
  }
  // The changes of views in the machine's log.
  std::vector<std::string> changes() const {
    std::vector<std::string> found;
    for (const std::string& line : machine.log)
      if (line.starts_with("view")) found.push_back(line);
    return found;
  }
  void check() {
    const LockGuard guard(block.lock);
    block.check_invariants();
    for (int p = 0; p < 3; ++p) {
      CHECK(block.switching(Processor{p}).none());
      for (unsigned page = 0; page < pages_per_block; ++page) {
        REQUIRE(block.view(Processor{p}, page).index == machine.at(p).view({page}));
        if (machine.at(p).maps({page})) REQUIRE(block.at(Processor{p}).mapped.test(page));
      }
    }
  }
};

using Changes = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "nobody waits for the requests of a processor that is overdue, and they stay in the queue") {
  Setup s;
  s.populate({0, 8}, host);
  std::promise<void> answer;
  std::future<void> answered = answer.get_future();
  s.machine.before = [&](const std::string& operation, Processor p, PageSpan) {
    if (operation == "view" && p == device) answered.wait();
  };
  REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 8}), Wish::see));
  s.machine.at(1).set_overdue(true);
  // The waits for an overdue device end at once. If they took their limit, a minute, the test's
  // runner would notice.
  CHECK_FALSE(s.switcher.wait_until_done(device, limit_ms));
  CHECK_FALSE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.switcher.wait_until_done(other_device, limit_ms));
  s.machine.at(1).set_overdue(false);
  answer.set_value();
  REQUIRE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.machine.at(1).maps_writable({3}));
  s.check();
}

TEST_CASE("a processor gets a view of pages where they are, with one change per run") {
  Setup s;
  s.populate({0, 8}, host);
  s.populate({8, 8}, other_device);
  s.populate({24, 8}, host);
  CHECK(s.request(device, {0, 32}, Wish::see));
  CHECK(s.changes() == Changes{"view 0 of 1: 0+8", "view 2 of 1: 8+8", "view 0 of 1: 24+8"});
  for (const std::uint64_t page : {0, 7, 8, 15, 24, 31})
    CHECK(s.machine.at(1).maps_writable({page}));
  // Pages that no pool holds stay unmapped, and fault.
  CHECK_FALSE(s.machine.at(1).maps({16}));
  CHECK(s.machine.at(1).held() == 0);
  s.check();
}

TEST_CASE("pages that the view shows already are mapped without a change") {
  Setup s;
  s.populate({0, 4}, host);
  CHECK(s.request(device, {0, 4}, Wish::see));
  {
    const LockedBlock locked({0}, s.block);
    s.engine.release(locked, {0, 4});
  }
  s.populate({0, 4}, host);
  CHECK_FALSE(s.machine.at(1).maps({0}));
  s.machine.log.clear();
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK(s.changes().empty());
  CHECK(s.machine.at(1).maps_writable({3}));
  s.check();
}

TEST_CASE("a processor that holds a copy views its own") {
  Setup s;
  s.populate({0, 4}, host);
  CHECK(s.request(device, {0, 4}, Wish::see));
  s.migrate({0, 2}, host, device);
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK(s.changes() == Changes{"view 0 of 1: 0+4", "view 1 of 1: 0+2"});
  CHECK(s.machine.at(1).maps_writable({0}));
  CHECK(s.machine.at(1).maps_writable({2}));
  s.check();
}

TEST_CASE("a change back to the own pool affects only pages with another view") {
  Setup s;
  s.populate({0, 16}, host);
  CHECK(s.request(device, {4, 4}, Wish::see));
  s.machine.log.clear();
  CHECK(s.request(device, {0, 16}, Wish::home));
  CHECK(s.changes() == Changes{"view 1 of 1: 4+4"});
  CHECK_FALSE(s.machine.at(1).maps({4}));
  s.machine.log.clear();
  CHECK(s.request(device, {0, 16}, Wish::home));
  CHECK(s.changes().empty());
  s.check();
}

TEST_CASE("pages that move during a change of view are not mapped at their old place") {
  Setup s;
  s.populate({0, 8}, host);
  bool moved = false;
  s.machine.before = [&](const std::string& operation, Processor p, PageSpan) {
    if (operation != "view" || p != device || moved) return;
    moved = true;
    {
      const LockGuard guard(s.block.lock);
      CHECK(s.block.switching(device) == PageMask::of({0, 8}));
    }
    s.migrate({0, 4}, host, other_device);
  };
  CHECK(s.request(device, {0, 8}, Wish::see));
  CHECK(moved);
  CHECK_FALSE(s.machine.at(1).maps({0}));
  CHECK(s.machine.at(1).maps_writable({4}));
  s.check();
  // A new request maps them where they went.
  CHECK(s.request(device, {0, 8}, Wish::see));
  CHECK(s.machine.at(1).maps_writable({0}));
  CHECK(s.machine.at(1).view({0}) == 2);
  s.check();
}

TEST_CASE("pages that come to the own pool during a change of view are filled, and mapped later") {
  Setup s;
  s.populate({0, 4}, host);
  s.machine.at(0).set_value({1}, 42);
  bool moved = false;
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation != "view" || moved) return;
    moved = true;
    s.migrate({0, 4}, host, device);
  };
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK_FALSE(s.machine.at(1).maps({1}));
  CHECK(s.machine.at(1).value({1}) == 42);
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK(s.machine.at(1).maps_writable({1}));
  CHECK(s.machine.at(1).view({1}) == 1);
  s.check();
}

TEST_CASE("after a failure changes are declined for a while, and nothing has changed") {
  Setup s;
  s.populate({0, 4}, host);
  s.machine.view_error = GENERATE(ENOMEM, ESRCH, EAGAIN);
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK(s.machine.at(1).view({0}) == 1);
  s.check();
  s.machine.view_error = 0;
  const std::uint64_t failed_ns = now_ns();
  const bool declined = !s.request(device, {0, 4}, Wish::see);
  // Not declined if the two lines above took that long on this machine.
  CHECK((declined || now_ns() - failed_ns > 10'000'000));
  // Other processors are not affected.
  CHECK(s.request(other_device, {0, 4}, Wish::see));
  CHECK(s.machine.at(2).view({0}) == 0);
  while (!s.request(device, {0, 4}, Wish::see)) {
    REQUIRE(now_ns() - failed_ns < 60'000'000'000);
    std::this_thread::yield();
  }
  CHECK(s.machine.at(1).view({0}) == 0);
  s.check();
}

TEST_CASE("the view of a process that has ended is not changed") {
  Setup s;
  s.populate({0, 4}, host);
  s.machine.at(1).die();
  CHECK(s.request(device, {0, 4}, Wish::see));
  CHECK(s.machine.at(1).view({0}) == 1);
  s.check();
}

TEST_CASE("near the budget of mappings changes are declined, and below it they are made again") {
  Setup s(120);
  s.machine.mappings = 119;
  s.populate({0, 8}, host);
  CHECK(s.request(device, {0, 8}, Wish::see));
  CHECK(s.changes().empty());
  CHECK(s.machine.at(1).view({0}) == 1);
  s.machine.mappings = 100;
  const std::uint64_t start_ns = now_ns();
  while (s.machine.at(1).view({0}) != 0) {
    REQUIRE(now_ns() - start_ns < 60'000'000'000);
    (void)s.request(device, {0, 8}, Wish::see);
  }
  CHECK(s.machine.at(1).maps_writable({7}));
  s.check();
}

TEST_CASE("changes back to the own pool are made even without spare mappings") {
  Setup s(104);
  s.populate({0, 8}, host);
  CHECK(s.request(device, {0, 8}, Wish::see));
  REQUIRE(s.machine.at(1).view({0}) == 0);
  s.machine.mappings = 1000;
  s.populate({16, 8}, host);
  for (unsigned page = 16; page < 24; page += 2) (void)s.request(device, {page, 1}, Wish::see);
  REQUIRE(s.machine.at(1).view({22}) == 1);
  CHECK(s.request(device, {0, 8}, Wish::home));
  CHECK(s.machine.at(1).view({0}) == 1);
  s.check();
}

TEST_CASE("tidying changes back the views of pages that no pool holds, except those in use again") {
  Setup s;
  s.populate({0, 8}, host);
  CHECK(s.request(device, {0, 8}, Wish::see));
  REQUIRE(s.machine.at(1).maps_writable({0}));
  {
    const LockedBlock locked({0}, s.block);
    s.engine.release(locked, {4, 4});
  }
  CHECK(s.request(device, {0, 8}, Wish::tidy));
  CHECK(s.machine.at(1).view({4}) == 1);
  CHECK(s.machine.at(1).view({3}) == 0);
  CHECK(s.machine.at(1).maps_writable({3}));
  s.check();
}

TEST_CASE("a request that is withdrawn before its turn is not executed") {
  Setup s;
  s.populate({0, 32}, host);
  {
    const ViewSwitcher::Pause pause(s.switcher, device);
    // The first request may be in progress already; the second one waits.
    REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 1}), Wish::home));
    REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 32}), Wish::see));
    s.switcher.withdraw(device, {0}, PageMask::of({8, 8}));
  }
  REQUIRE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.machine.at(1).view({7}) == 0);
  CHECK(s.machine.at(1).view({8}) == 1);
  CHECK(s.machine.at(1).view({16}) == 0);
  s.check();
}

TEST_CASE("mappings are counted again before changes are declined") {
  Setup s(110);
  s.machine.mappings = 100;
  // Many more changes than the budget would allow if each had its worst-case cost.
  s.populate({0, 512}, host);
  for (unsigned page = 0; page < 200; page += 2) CHECK(s.request(device, {page, 1}, Wish::see));
  CHECK(s.changes().size() == 100);
  s.check();
}

TEST_CASE("several waiting requests for one block are merged") {
  Setup s;
  s.populate({0, 64}, host);
  {
    const ViewSwitcher::Pause pause(s.switcher, device);
    // The first request is taken up, and waits for the pause to end.
    for (unsigned page = 0; page < 64; ++page)
      REQUIRE(s.switcher.request(device, {0}, PageMask::of({page, 1}), Wish::see));
    CHECK(s.changes().empty());
  }
  REQUIRE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.changes().size() <= 2);
  for (std::uint64_t page = 0; page < 64; ++page) CHECK(s.machine.at(1).maps_writable({page}));
  s.check();
}

TEST_CASE("no view changes during a pause, and a pause waits for the change in progress") {
  Setup s;
  s.populate({0, 4}, host);
  std::promise<void> changing;
  std::atomic<bool> changed{false};
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation != "view") return;
    changing.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    changed = true;
  };
  REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 4}), Wish::see));
  changing.get_future().wait();
  {
    const ViewSwitcher::Pause pause(s.switcher, device);
    CHECK(changed);
    s.machine.before = nullptr;
    REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 4}), Wish::home));
    CHECK_FALSE(s.switcher.wait_until_done(20));
    CHECK(s.machine.at(1).view({0}) == 0);
  }
  REQUIRE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.machine.at(1).view({0}) == 1);
  s.check();
}

TEST_CASE("a device that does not answer does not block changes of other processors' views") {
  Setup s;
  s.populate({0, 4}, host);
  std::promise<void> changing;
  std::promise<void> answers;
  s.machine.before = [&](const std::string& operation, Processor p, PageSpan) {
    if (operation != "view" || p != device) return;
    changing.set_value();
    answers.get_future().wait();
  };
  REQUIRE(s.switcher.request(device, {0}, PageMask::of({0, 4}), Wish::see));
  changing.get_future().wait();
  REQUIRE(s.switcher.request(other_device, {0}, PageMask::of({0, 4}), Wish::see));
  CHECK(s.switcher.wait_until_done(other_device, limit_ms));
  CHECK(s.machine.at(2).view({0}) == 0);
  CHECK_FALSE(s.switcher.wait_until_done(device, 20));
  CHECK(s.machine.at(1).view({0}) == 1);
  answers.set_value();
  REQUIRE(s.switcher.wait_until_done(limit_ms));
  CHECK(s.machine.at(1).view({0}) == 0);
  s.check();
}
}  // namespace wherry::test::view_switcher_test
