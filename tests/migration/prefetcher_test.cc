// Prefetching on a simulated machine: where pages are afterwards, their contents, and that nothing
// is lost when steps fail.
#include "migration/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <random>

#include "migration/read_ahead.h"
#include "policy/fixed_policies.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/service_setup.h"
#include "support/waiting.h"

namespace wherry::test::prefetcher_test {
namespace {

constexpr std::uint64_t blocks = 8;
constexpr std::uint64_t pages = blocks * pages_per_block;

struct Setup : ServiceSetup<MigrateAlways> {
  explicit Setup(std::uint64_t capacity_pages = pages, unsigned copiers = 2)
      : ServiceSetup(blocks, capacity_pages, /*knows_pins=*/false, /*region_pages=*/16),
        copiers_(copiers) {}

  // Puts every page of the span at p, with its number as the value.
  void stock(Processor p, PageSpan span) {
    for (PageIndex page = span.first; page < span.end(); page = {(page.value / 16 + 1) * 16})
      touch(p, page);
    for (PageIndex page = span.first; page < span.end(); ++page)
      machine.at(p.index).set_value(page, page.value + 1);
  }
  // Runs the request, and waits until it has completed.
  void run(const PrefetchRequest& request) {
    start();
    std::mutex lock;
    std::condition_variable changed;
    int done = 0;
    prefetcher->submit(request, [&] {
      const std::lock_guard guard(lock);
      ++done;
      changed.notify_all();
    });
    std::unique_lock guard(lock);
    REQUIRE(changed.wait_for(guard, std::chrono::minutes(1), [&] { return done != 0; }));
    CHECK(done == 1);
  }
  void prefetch(PageSpan span, Location to) {
    run({{{span, span, to}}, PrefetchRequest::Kind::prefetch, 0});
  }
  void start() {
    if (prefetcher) return;
    switcher.start();
    copiers = std::make_unique<Copiers>(
        [this](unsigned) { return std::make_unique<FakeBackend>(backend_state); },
        Copiers::Limits{copiers_});
    prefetcher = std::make_unique<Prefetcher>(
        PrefetchParts{engine, machine.blocks(), address_space, effects, evictor, *copiers},
        PrefetchLimits{32, /*host_has_nodes=*/true});
    copiers->start();
  }

  // Checks also that nothing is reserved for pages that are not there.
  void check_page_state() {
    ServiceSetup::check_page_state();
    for (int p = 0; p < 3; ++p)
      CHECK(machine.memory(p).capacity.reserved() == machine.at(p).held());
  }
  // Checks that the span is at p (alone, unless `alone` is false), and has the values of stock().
  void check_at(Processor p, PageSpan span, bool alone = true) {
    for (PageIndex page = span.first; page < span.end(); ++page) {
      const bool elsewhere =
          machine.at(0).holds(page) + machine.at(1).holds(page) + machine.at(2).holds(page) > 1;
      if (!machine.at(p.index).holds(page) || (alone && elsewhere) ||
          machine.at(p.index).value(page) != page.value + 1)
        FAIL("page " << page.value << " is not as it should be at processor " << p.index);
    }
  }

  std::unique_ptr<Prefetcher> prefetcher;
  std::unique_ptr<Copiers> copiers;  // destroyed first

 private:
  unsigned copiers_;
};

const PageSpan several_blocks{{100}, 3 * pages_per_block};

}  // namespace

TEST_CASE("prefetched pages are at the destination, and mapped there") {
  Setup s;
  s.stock(host, several_blocks);
  s.prefetch(several_blocks, Location::device(0));
  s.check_at(device, several_blocks);
  for (const PageIndex page : {several_blocks.first, several_blocks.end() - 1}) {
    CHECK(s.machine.at(1).maps_writable(page));
    CHECK_FALSE(s.machine.at(0).maps(page));
  }
  CHECK(s.machine.memory(1).counters.prefetched == several_blocks.count);
  s.check_page_state();
  s.prefetch(several_blocks, Location::host());
  s.check_at(host, several_blocks);
  s.check_page_state();
}

TEST_CASE("what is read ahead comes as whole blocks, and is mapped by its first access") {
  Setup s;
  const PageSpan two{{0}, 2 * pages_per_block};
  s.stock(host, two);
  s.run({{{two, two, Location::device(0)}}, PrefetchRequest::Kind::read_ahead, 0});
  s.check_at(device, two);
  CHECK_FALSE(s.machine.at(1).maps({7}));
  CHECK(s.machine.memory(1).counters.prefetched == 0);
  s.touch(device, {7});
  CHECK(s.machine.at(1).maps_writable({7}));
  CHECK(s.machine.at(1).maps_writable({pages_per_block - 1}));
  CHECK_FALSE(s.machine.at(1).maps({pages_per_block}));
  s.check_page_state();
}

TEST_CASE("blocks that are advised, incomplete, or without space are not read ahead") {
  Setup s(/*capacity_pages=*/pages_per_block);
  const PageSpan whole_block = block_span({0}), advised = block_span({1}), incomplete{{1024}, 500},
                 without_space = block_span({3});
  for (const PageSpan span : {whole_block, advised, incomplete, without_space}) s.stock(host, span);
  s.advice.change(advised, {AdviceChange::Kind::set_preferred, Location::host()});
  for (std::uint64_t block = 0; block < 4; ++block) {
    const PageSpan span = block_span({block});
    s.run({{{span, span, Location::device(0)}}, PrefetchRequest::Kind::read_ahead, 0});
  }
  s.check_at(device, whole_block);
  for (const PageSpan span : {advised, incomplete, without_space}) s.check_at(host, span);
  s.check_page_state();
}

TEST_CASE("the next blocks of a sweep are requested once, and not beyond the allocation") {
  Setup s;
  s.stock(host, {{0}, 6 * pages_per_block});
  s.start();
  ReadAhead ahead(*s.prefetcher, *s.copiers, s.machine.blocks(), /*cpus=*/1'000'000);
  const PageSpan allocation{{pages_per_block}, 4 * pages_per_block};
  const auto comes = [&](std::uint64_t block) {
    return comes_true([&] {
      Block& state = s.machine.blocks().at({block});
      const LockGuard guard(state.lock);
      return state.at(device).resident.count() == pages_per_block && state.in_flight().none();
    });
  };
  for (int i = 0; i < 3; ++i) ahead.request(device, {3}, 1, allocation);
  CHECK(comes(4));
  ahead.request(device, {3}, -1, allocation);
  CHECK(comes(2));
  CHECK(comes(1));
  s.prefetch({{7 * pages_per_block}, 1}, Location::host());  // after all requests before it
  for (const std::uint64_t block : {0, 3, 5}) s.check_at(host, block_span({block}));
  CHECK(s.backend_state.transfers == 3);
  s.check_page_state();
}

TEST_CASE("memory that does not exist yet is created at the destination") {
  Setup s;
  s.prefetch({{0}, 700}, Location::device(1));
  CHECK(s.machine.at(2).held() == 700);
  CHECK(s.machine.at(2).maps_writable({0}));
  CHECK(s.machine.at(2).maps_writable({699}));
  s.check_page_state();
}

TEST_CASE("pages that are at the destination already are only mapped") {
  Setup s;
  s.stock(device, several_blocks);
  s.machine.at(1).unmap({200});
  const int transfers = s.backend_state.transfers;
  s.prefetch(several_blocks, Location::device(0));
  CHECK(s.backend_state.transfers == transfers);
  CHECK(s.machine.at(1).maps({199}));
  s.check_at(device, several_blocks);
}

TEST_CASE("read-mostly memory gets a copy at the destination") {
  Setup s;
  s.stock(host, several_blocks);
  s.advice.change(several_blocks, {AdviceChange::Kind::set_read_mostly, {}});
  s.prefetch(several_blocks, Location::device(0));
  s.prefetch(several_blocks, Location::device(1));
  for (int p = 0; p < 3; ++p) {
    s.check_at(Processor{p}, several_blocks, /*alone=*/false);
    CHECK_FALSE(s.machine.at(p).maps_writable({300}));
  }
  CHECK(s.machine.at(2).maps({300}));
  s.check_page_state();
}

TEST_CASE("where Linux cannot map copies protected later, they arrive mapped") {
  Setup s;
  s.stock(host, several_blocks);
  s.advice.change(several_blocks, {AdviceChange::Kind::set_read_mostly, {}});
  s.machine.failures.assign(20, {"map", OpStatus::unsupported, 0});
  s.prefetch(several_blocks, Location::device(0));
  s.check_at(device, several_blocks, /*alone=*/false);
  CHECK(s.machine.at(1).maps({300}));
  s.check_page_state();
}

TEST_CASE("pages from all pools are collected, in any number of pieces") {
  Setup s;
  for (std::uint64_t page = 0; page < 1024; page += 16) {
    const Processor owner{static_cast<int>(page / 16 % 4)};
    if (owner.index < 3) s.stock(owner, {{page}, 16});
  }
  s.prefetch({{3}, 1000}, Location::device(1));
  for (std::uint64_t page = 3; page < 1003; ++page) {
    CHECK(s.machine.at(2).holds({page}));
    CHECK_FALSE(s.machine.at(0).holds({page}));
    if (page / 16 % 4 != 3) CHECK(s.machine.at(2).value({page}) == page + 1);
  }
  CHECK(s.machine.at(0).holds({0}));
  s.check_page_state();
}

TEST_CASE("a transfer that fails is repeated, and nothing is lost or left behind") {
  const OpStatus statuses[] = {OpStatus::ok, OpStatus::incomplete, OpStatus::no_memory};
  for (const OpStatus status : statuses) {
    for (const std::uint64_t arrived : {0, 1, 300}) {
      for (const int times : {1, 2, 3, 10}) {
        Setup s;
        s.stock(host, several_blocks);
        s.backend_state.mishaps.assign(static_cast<std::size_t>(times), {status, arrived});
        INFO(to_string(status) << " after " << arrived << " pages, " << times << " times");
        s.prefetch(several_blocks, Location::device(0));
        s.check_at(device, several_blocks);
        s.check_page_state();
        CHECK(s.machine.memory(1).counters.false_residency == 0);
      }
    }
  }
}

TEST_CASE("a failing creation leaves nothing behind") {
  Setup s;
  s.backend_state.mishaps.assign(5, {OpStatus::incomplete, 100});
  s.prefetch({{0}, 2 * pages_per_block}, Location::device(0));
  CHECK(s.machine.at(1).held() == 2 * pages_per_block);
  s.check_page_state();
}

TEST_CASE("during a transfer pages can be read at their source, and be written nowhere") {
  Setup s;
  s.stock(host, {{0}, pages_per_block});
  int looked = 0;
  s.backend_state.during_page_transfer = [&](const PageTransfer& transfer) {
    if (transfer.kind != PageTransfer::Kind::move) return;
    ++looked;
    CHECK(s.machine.at(0).maps(transfer.span.first));
    CHECK_FALSE(s.machine.at(0).maps_writable(transfer.span.first));
    // Faults on these pages wait, and faults on their neighbours do not.
    for (const Processor p : {host, device}) {
      Fault fault = s.service.take(p, {Setup::base + transfer.span.offset(), 1, true, true, false});
      CHECK(s.service.resolve(fault));
    }
    Fault beside = s.service.take(device, {Setup::base + 5 * block_size, 1, true, false, false});
    CHECK_FALSE(s.service.resolve(beside));
  };
  s.prefetch({{0}, pages_per_block}, Location::device(0));
  CHECK(looked > 0);
  s.check_at(device, {{0}, pages_per_block});
  s.check_page_state();
}

TEST_CASE("a fault on a neighbour of pages in a transfer is answered, and does not affect them") {
  Setup s;
  s.stock(host, {{0}, 16});
  // Half of a fault's region is in a transfer.
  s.stock(host, {{0}, pages_per_block});
  bool looked = false;
  s.backend_state.during_page_transfer = [&](const PageTransfer& transfer) {
    if (looked) return;
    looked = true;
    CHECK(transfer.span.first.value == 8);
    s.touch(device, {3});
    CHECK(s.machine.at(1).holds({0}));
    CHECK(s.machine.at(1).holds({7}));
    CHECK(s.machine.at(0).holds({8}));
  };
  s.prefetch({{8}, 200}, Location::device(0));
  CHECK(looked);
  s.check_at(device, {{8}, 200});
  s.check_page_state();
}

TEST_CASE("pages that other processors take after their transfer stay there") {
  Setup s;
  constexpr PageSpan taken{{0}, 32};
  s.stock(host, {{0}, 100});
  s.stock(Processor::device(1), {{160}, 100});
  int transfers = 0;
  s.backend_state.during_page_transfer = [&](const PageTransfer& transfer) {
    ++transfers;
    if (transfer.span.first == taken.first) return;
    for (PageIndex page = taken.first; page < taken.end(); page += 16) s.touch(host, page);
  };
  s.prefetch({{0}, 260}, Location::device(0));
  // One transfer from the host, one that creates the pages between, one from the other device.
  CHECK(transfers == 3);
  s.check_at(host, taken);
  s.check_at(device, {taken.end(), PageIndex{100} - taken.end()});
  s.check_at(device, {{160}, 100});
  s.check_page_state();
}

TEST_CASE("memory that was freed meanwhile is skipped, and so is a new allocation there") {
  Setup s;
  s.stock(host, several_blocks);
  int seen = 0;
  s.backend_state.during_page_transfer = [&](const PageTransfer&) {
    if (seen++ != 0) return;
    s.address_space.begin_free(s.whole.offset);
    s.address_space.end_free(s.whole);
    s.whole = s.address_space.allocate(blocks * block_size, 0).value();
  };
  s.prefetch(several_blocks, Location::device(0));
  // The transfer in progress completed, and no other one began.
  CHECK(s.machine.at(1).held() <= 4 * pages_per_block);
  CHECK(s.machine.at(0).held() > 0);
  s.check_page_state();
}

TEST_CASE("discarded memory is gone") {
  Setup s;
  s.stock(host, several_blocks);
  const PageSpan whole{{101}, 900};
  s.run({{{several_blocks, whole, {}}}, PrefetchRequest::Kind::discard, 0});
  for (PageIndex page = several_blocks.first; page < several_blocks.end(); ++page)
    CHECK(s.machine.at(0).holds(page) != whole.contains(page));
  s.check_page_state();
}

TEST_CASE(
    "discarded and then prefetched memory is at the destination, and nothing was copied for it") {
  Setup s;
  s.stock(host, {{0}, 800});
  s.stock(device, {{800}, 224});
  s.run({{{{{0}, 1024}, {{1}, 1022}, Location::device(0)}},
         PrefetchRequest::Kind::discard_and_prefetch,
         0});
  CHECK(s.machine.at(1).held() == 1024);
  CHECK(s.machine.at(1).value({0}) == 1);  // shares its page with bytes outside the range
  CHECK(s.machine.at(1).value({900}) == 901);
  CHECK(s.machine.memory(1).counters.bytes_copied == page_size);
  s.check_page_state();
}

TEST_CASE("overlapping ranges are processed in their order") {
  Setup s;
  s.stock(host, several_blocks);
  s.run({{{several_blocks, several_blocks, Location::device(0)},
          {several_blocks, several_blocks, Location::device(1)},
          {{{200}, 50}, {{200}, 50}, Location::host()}},
         PrefetchRequest::Kind::prefetch,
         0});
  s.check_at(host, {{200}, 50});
  s.check_at(Processor::device(1), {{250}, several_blocks.end() - PageIndex{250}});
  s.check_page_state();
}

TEST_CASE("memory prefetched to a node of the host goes to that node, unless it is pinned") {
  Setup s;
  s.stock(host, {{0}, 100});
  s.stock(device, {{100}, 100});
  s.advice.change({{40}, 10}, {AdviceChange::Kind::pinned, {}});
  s.machine.log.clear();
  s.prefetch({{0}, 200}, Location::host_node(1));
  s.check_at(host, {{0}, 200});
  const auto moved = [&](const char* pages) {
    return std::ranges::find(s.machine.log, std::string("node 1 of 0: ") + pages) !=
           s.machine.log.end();
  };
  CHECK(moved("0+40"));
  CHECK(moved("50+150"));
  s.machine.log.clear();
  s.prefetch({{0}, 200}, Location::host());
  CHECK_FALSE(moved("0+40"));
}

TEST_CASE("requests without pages complete at once, also between others") {
  Setup s;
  s.stock(host, several_blocks);
  s.run({{}, PrefetchRequest::Kind::prefetch, 0});
  s.run({{{several_blocks, {{200}, 0}, {}}}, PrefetchRequest::Kind::discard, 0});
  s.check_at(host, several_blocks);
}

TEST_CASE("a full destination evicts for prefetched pages") {
  Setup s(2 * pages_per_block);
  s.stock(device, {{0}, 2 * pages_per_block});
  s.stock(host, {{3 * pages_per_block}, pages_per_block});
  s.prefetch({{3 * pages_per_block}, pages_per_block}, Location::device(0));
  s.check_at(device, {{3 * pages_per_block}, pages_per_block});
  CHECK(s.machine.at(1).held() <= 2 * pages_per_block);
  s.check_page_state();
}

TEST_CASE("of too many pages those that fit arrive, and no page that has just arrived is evicted") {
  constexpr std::uint64_t capacity = 2 * pages_per_block + 77;
  Setup s(capacity, /*copiers=*/1);
  const bool exists = GENERATE(true, false);
  constexpr PageSpan wanted{{pages_per_block}, 3 * pages_per_block};
  if (exists) s.stock(host, wanted);
  s.run({{{wanted, wanted, Location::device(0)}}, PrefetchRequest::Kind::prefetch, 1});
  CHECK(s.machine.at(1).held() == capacity);
  for (PageIndex page = wanted.first; page < wanted.first + capacity; ++page)
    REQUIRE(s.machine.at(1).holds(page));
  s.check_page_state();
}

TEST_CASE(
    "memory that is used while it is prefetched back and forth loses nothing, even after "
    "failures") {
  constexpr PageSpan used{{0}, 4 * pages_per_block};
  const std::uint64_t requests = 10 + scaled(50);
  for (int round = 0; round < 4; ++round) {
    Setup s(3 * pages_per_block, 3);
    s.machine.punch_unmaps = round % 2 == 0;
    s.stock(host, used);
    s.start();
    std::mt19937_64 random(seed() + static_cast<unsigned>(round));
    std::atomic<int> open{0};
    for (std::uint64_t i = 0; i < requests; ++i) {
      const std::uint64_t first = random() % used.count;
      const PageSpan span{{first}, 1 + random() % (used.count - first)};
      const Location to =
          random() % 3 == 0 ? Location::host() : Location::device(static_cast<int>(random() % 2));
      {
        const std::lock_guard guard(s.backend_state.lock);
        if (random() % 2 == 0)
          s.backend_state.mishaps.push_back(
              {random() % 2 == 0 ? OpStatus::no_memory : OpStatus::incomplete, random() % 5});
      }
      if (random() % 4 == 0)
        s.advice.change(span, {random() % 2 == 0 ? AdviceChange::Kind::set_read_mostly
                                                 : AdviceChange::Kind::unset_read_mostly,
                               {}});
      ++open;
      s.prefetcher->submit({{{span, span, to}}, PrefetchRequest::Kind::prefetch, 0},
                           [&] { --open; });
      for (int k = 0; k < 30; ++k)
        s.touch(Processor{static_cast<int>(random() % 3)}, {random() % used.count},
                random() % 3 == 0);
    }
    const std::uint64_t limit = now_ns() + 60'000'000'000;
    while (open.load() != 0 && now_ns() < limit) std::this_thread::yield();
    REQUIRE(open.load() == 0);
    s.check_page_state();
    for (std::uint64_t page = 0; page < used.count; ++page) {
      int copies = 0;
      for (int p = 0; p < 3; ++p) {
        if (!s.machine.at(p).holds({page})) continue;
        ++copies;
        if (s.machine.at(p).value({page}) != page + 1) FAIL("page " << page << " at " << p);
      }
      if (copies == 0) FAIL("page " << page << " is lost");
    }
  }
}

}  // namespace wherry::test::prefetcher_test
