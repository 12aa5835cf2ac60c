// Single faults on a simulated machine: the decision, which threads are woken, and that no thread
// is left waiting.
#include "faults/fault_service.h"

#include <cerrno>
#include <functional>
#include <future>
#include <set>
#include <span>
#include <thread>

#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/service_setup.h"
#include "trap/fault_board.h"

namespace wherry::test::fault_service_test {
namespace {

// Returns the test's opinion, and reports the beginning of a temporary pin only once.
struct ScriptedPolicy final : impl::Policy {
  mutable impl::Opinion opinion;   // default: no opinion
  mutable impl::FaultFacts asked;  // the facts of the latest call

  impl::Opinion on_fault(const impl::FaultFacts& facts,
                         std::unique_ptr<impl::BlockHistory>& history) const override {
    asked = facts;
    if (!history) history = std::make_unique<impl::BlockHistory>();
    impl::Opinion said = opinion;
    opinion.pin_begins = false;
    return said;
  }
  PageMask end_temporary_pins(std::uint64_t now, impl::BlockHistory&) const override {
    return opinion.region && now >= opinion.pin_until_ns ? PageMask::of(*opinion.region)
                                                         : PageMask{};
  }
};

struct Setup : ServiceSetup<ScriptedPolicy> {
  explicit Setup(std::uint64_t device_pages = 512)
      : ServiceSetup(4, device_pages, /*knows_pins=*/true, /*region_pages=*/16) {}

  void prefer(PageSpan pages, Location location) {
    advice.change(pages, {AdviceChange::Kind::set_preferred, location});
  }
  void accessed_by(PageSpan pages, Processor p) {
    const Location location = p.is_host() ? Location::host() : Location::device(p.ordinal());
    advice.change(pages, {AdviceChange::Kind::set_accessed_by, location});
  }
  void touch(Processor p, PageIndex page, bool write = true) {
    answer(p, {base + offset_of(page) + 8, 1, write, false, false});
  }
  // Ends the allocation. Its pages stay where they are.
  void free(const Allocation& allocation) {
    REQUIRE(address_space.begin_free(allocation.offset));
    address_space.end_free(allocation);
  }
  // Frees all memory, and allocates a block of the device's own.
  Allocation allocate_own() {
    free(whole);
    const auto own = address_space.allocate(block_size, 0, {device});
    REQUIRE(own);
    return *own;
  }
  // From now on the policy pins page 21 where it is: at the host.
  void pin_until(std::uint64_t end_ns) {
    policy.opinion = {.destination = host,
                      .region = PageRun{21, 1},
                      .pins = true,
                      .pin_begins = true,
                      .pin_until_ns = end_ns};
  }
  // Waits until the minimum residency of touched pages has ended.
  static void let_residency_end() {
    for (const std::uint64_t end = now_ns() + 2 * MinimumResidency::residence_ns; now_ns() <= end;)
      std::this_thread::yield();
  }
  bool woke(Processor p, PageIndex page) const {
    for (const std::string& line : machine.log) {
      unsigned long first = 0;
      unsigned long count = 0;
      int processor = 0;
      if (std::sscanf(line.c_str(), "wake %d: %lu+%lu", &processor, &first, &count) == 3 &&
          processor == p.index && PageSpan{{first}, count}.contains(page))
        return true;
    }
    return false;
  }
};

constexpr std::uintptr_t base = Setup::base;

}  // namespace

TEST_CASE("a first touch populates the natural region at the faulting processor and wakes it") {
  Setup s;
  s.touch(device, {21});
  CHECK(s.machine.at(1).held() == 16);
  CHECK(s.machine.at(1).maps_writable({16}));
  CHECK(s.machine.at(1).maps_writable({31}));
  CHECK(s.woke(device, {21}));
  CHECK(s.machine.memory(1).counters.faults_missing == 1);
}

TEST_CASE(
    "every change for a fault, also an eviction, may be made by the thread that waits for it") {
  Setup s(16);
  FaultSlot slot;
  s.machine.punch_unmaps = false;
  s.touch(host, {0});
  s.touch(device, {600});
  CHECK(s.machine.waiters == std::set<FaultSlot*>{nullptr});
  s.machine.waiters.clear();
  Fault fault = s.service.take(device, {base, 1, true, false, false});
  fault.waiter = &slot;
  s.resolve(fault);
  CHECK(s.machine.at(1).maps_writable({0}));
  CHECK(s.machine.at(0).holds({600}));
  CHECK(s.machine.waiters == std::set<FaultSlot*>{&slot});
}

// Linux may merge the small pages of a block into a huge page again after some were pinned. While
// somebody holds one of those, a copy of its neighbour in the huge page cannot leave either.
TEST_CASE("a write to a page of which a copy cannot leave is answered where that copy is") {
  Setup s;
  s.switcher.start();
  const PageSpan block{{0}, pages_per_block};
  for (unsigned page = 0; page < pages_per_block; page += pages_per_region) s.touch(host, {page});
  s.advice.change(block, {AdviceChange::Kind::set_read_mostly, {}});
  s.touch(device, {40}, /*write=*/false);
  REQUIRE(s.machine.at(1).holds({40}));
  s.advice.change({{100}, 1}, {AdviceChange::Kind::pinned, {}});
  s.machine.at(0).make_huge(BlockIndex{0}, /*held=*/true);

  // The thread accesses the page again after each answer.
  constexpr int answers_max = 20;
  int answers = 0;
  for (; answers < answers_max && !s.machine.at(1).maps_writable({40}); ++answers)
    s.answer(device, {base + offset_of(PageIndex{40}), 1, true, true, true});
  CHECK(answers < answers_max);
  CHECK(s.machine.at(0).holds({40}));
  CHECK_FALSE(s.machine.at(1).holds({40}));

  SECTION("and moves after the hold") {
    s.machine.at(0).let_go(BlockIndex{0});
    for (const std::uint64_t end = s.service.temporary_pins().next_end().value(); now_ns() < end;)
      std::this_thread::yield();
    s.service.temporary_pins().end_due(now_ns());
    for (int i = 0; i < answers_max && !s.machine.at(1).holds({40}); ++i) s.touch(device, {40});
    CHECK(s.machine.at(1).holds({40}));
  }
}

TEST_CASE("the reservation of a fault counts as free when the policy is asked again") {
  Setup s;
  s.policy.opinion.region = PageRun{0, pages_per_block};
  s.touch(device, {0});
  CHECK(s.policy.asked.free_pages == 512);
  s.policy.opinion.region.reset();
  s.touch(device, {pages_per_block});
  CHECK_FALSE(s.machine.at(1).holds({0}));
  CHECK(s.policy.asked.free_pages == 512);
}

TEST_CASE(
    "an access elsewhere moves the page and only those neighbours that are at the same place") {
  Setup s;
  s.touch(host, {0});
  s.touch(device, {3});  // moves the region to the device
  s.touch(host, {16});
  CHECK(s.machine.at(1).held() == 16);
  CHECK(s.machine.at(0).held() == 16);
  CHECK(s.machine.at(0).holds({16}));
  CHECK(s.woke(device, {3}));
}

TEST_CASE("pages stay with a woken thread for a moment before another processor gets them") {
  bool refused = false;
  // Repeated if this thread is descheduled for longer than the moment lasts.
  for (int round = 0; round < 1000 && !refused; ++round) {
    Setup s;
    s.touch(host, {0});
    // Pretends that the wake is slightly in the future: with sanitizers the next lines take longer
    // than the minimum residency.
    s.machine.blocks().at({0}).minimum_residency.woken({0, 16}, host, now_ns() + 5'000'000);
    Fault fault = s.service.take(device, {base, 2, true, false, false});
    const auto due = s.service.resolve(fault);
    if (!due) continue;
    refused = true;
    CHECK(*due <= now_ns() + MinimumResidency::residence_ns);
    CHECK(s.machine.at(0).holds({0}));
    CHECK_FALSE(s.woke(device, {0}));
    while (now_ns() < *due) std::this_thread::yield();
    while (s.service.resolve(fault)) std::this_thread::yield();
    CHECK(s.machine.at(1).holds({0}));
    CHECK(s.woke(device, {0}));
  }
  CHECK(refused);
}

namespace {

// The clock for the time that faults have waited.
std::uint64_t time_ns = 0;
WaitedTime waited_on_test_clock() {
  return WaitedTime([] { return time_ns; });
}

// Whether function() prints this line, which is a failure of every test that does not expect it
// (support/defects.py).
bool says_never_came_free(const std::function<void()>& function) {
  return stderr_of(function).find("the page never came free") != std::string::npos;
}

// Calls resolve() repeatedly, with a long time between calls by the test clock. Returns the number
// of calls until the fault was refused, or -1.
int looks_until_refused(Setup& s, Fault& fault) {
  fault.wait.waited = waited_on_test_clock();
  for (int looks = 1; looks <= 1000; ++looks) {
    time_ns += 900'000'000;
    if (!s.service.resolve(fault)) {
      CHECK(fault.refused);
      return looks;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("a fault waits for a live transfer as long as it takes, and gives up on a dead one") {
  Setup s;
  s.touch(host, {0});
  Block& block = s.machine.blocks().at({0});
  {
    const LockedBlock locked({0}, block);
    s.engine.begin_byte_transfer(locked, PageMask::of({0, 16}));
  }
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  CHECK(looks_until_refused(s, fault) == -1);
  CHECK_FALSE(fault.refused);
  {
    const LockedBlock locked({0}, block);
    s.engine.end_byte_transfer(locked, PageMask::of({0, 16}));
  }
  while (s.service.resolve(fault)) std::this_thread::yield();
  CHECK(s.woke(device, {0}));
  CHECK_FALSE(fault.refused);

  std::thread([&] {
    const LockedBlock locked({0}, block);
    s.engine.begin_byte_transfer(locked, PageMask::of({0, 16}));
  }).join();
  Fault stuck = s.service.take(host, {base, 2, true, false, false});
  CHECK(says_never_came_free([&] { CHECK(looks_until_refused(s, stuck) > 20); }));
  const LockedBlock locked({0}, block);
  s.engine.end_byte_transfer(locked, PageMask::of({0, 16}));
}

TEST_CASE("freed pages go to the fault that has waited longest, whichever fault is retried first") {
  Setup s;
  Capacity& capacity = s.machine.memory(1).capacity;
  REQUIRE(capacity.try_reserve(512));  // reserved by others, for pages that are still to arrive
  Fault older = s.service.take(device, {base, 2, true, false, false});
  Fault younger = s.service.take(device, {base + block_size, 3, true, false, false});
  REQUIRE(s.service.resolve(older));
  REQUIRE(s.service.resolve(younger));
  capacity.give_back(8);
  // The older fault has reserved half of what it needs, and keeps that while it is postponed.
  REQUIRE(s.service.resolve(older));
  CHECK(older.reservation.pages_of(capacity) == 8);
  CHECK(capacity.reserved() == 512);
  capacity.give_back(8);
  REQUIRE(s.service.resolve(younger));
  CHECK_FALSE(s.machine.at(1).holds({pages_per_block}));
  CHECK_FALSE(s.service.resolve(older));
  CHECK(s.machine.at(1).held() == 16);
  CHECK(s.machine.at(1).holds({0}));
  capacity.give_back(16);
  CHECK_FALSE(s.service.resolve(younger));
  CHECK(s.machine.at(1).holds({pages_per_block}));
  CHECK(capacity.reserved() == 512);
}

TEST_CASE("a fault that ends without being resolved passes its reservation on") {
  Setup s;
  Capacity& capacity = s.machine.memory(1).capacity;
  REQUIRE(capacity.try_reserve(512));
  Fault younger = s.service.take(device, {base + block_size, 3, true, false, false});
  {
    Fault older = s.service.take(device, {base, 2, true, false, false});
    REQUIRE(s.service.resolve(older));
    REQUIRE(s.service.resolve(younger));
    capacity.give_back(15);
    REQUIRE(s.service.resolve(older));
    // The fault is destroyed, as if its memory was freed, it was refused, or its device has died.
  }
  capacity.give_back(1);
  CHECK_FALSE(s.service.resolve(younger));
  CHECK(capacity.reserved() == 512);
}

TEST_CASE("a fault waits while older ones get free pages, and then uses another pool") {
  Setup s;
  Capacity& capacity = s.machine.memory(1).capacity;
  REQUIRE(capacity.try_reserve(512));
  Reservation older;
  REQUIRE_FALSE(older.join_line(capacity, 400));
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  REQUIRE(s.service.resolve(fault));
  fault.wait.waited = waited_on_test_clock();
  for (int i = 0; i < 390; ++i) {
    capacity.give_back(1);
    time_ns += 900'000'000;
    REQUIRE(s.service.resolve(fault));
  }
  s.switcher.start();
  int looks = 0;
  for (; !s.machine.at(0).holds({0}) && s.service.resolve(fault); ++looks) time_ns += 900'000'000;
  CHECK(looks > 5);
  while (s.service.resolve(fault)) std::this_thread::yield();
  CHECK_FALSE(fault.refused);
  CHECK(s.machine.at(0).holds({0}));
  CHECK(s.woke(device, {0}));
}

TEST_CASE("a fault for which no pool has space waits as long as others may free some") {
  Setup s;
  for (const int full : {0, 1}) {
    Capacity& capacity = s.machine.memory(full).capacity;
    REQUIRE(capacity.try_reserve(capacity.pages()));
  }
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  CHECK(looks_until_refused(s, fault) > 40);
}

TEST_CASE("an evicted block does not come back as a whole if that would fill the pool") {
  Setup s(512);
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  REQUIRE(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  s.touch(device, {40});
  CHECK(s.machine.at(1).held() == 16);
}

TEST_CASE("stalls of the whole machine do not count as waiting") {
  constexpr std::uint64_t still_ns = 60'000'000'000;
  constexpr int looks = 10'000'000'000 / look_max_ns;
  Setup s;
  s.touch(host, {0});
  Block& block = s.machine.blocks().at({0});
  {
    const LockGuard guard(block.lock);
    block.transfer_begun({0, 16});
  }
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  REQUIRE(s.service.resolve(fault));
  fault.wait.waited = waited_on_test_clock();
  for (int i = 0; i < looks - 1; ++i) {
    time_ns += still_ns;
    REQUIRE(s.service.resolve(fault));
  }
  time_ns += still_ns;
  CHECK(says_never_came_free([&] { CHECK_FALSE(s.service.resolve(fault)); }));
  CHECK(fault.refused);
  const LockGuard guard(block.lock);
  block.transfer_ended({0, 16});
}

TEST_CASE("pages stay with a thread that has not been woken yet") {
  int refusals = 0;
  // Repeated if this thread is descheduled for longer than the minimum residency.
  for (int round = 0; round < 20 && refusals == 0; ++round) {
    Setup s;
    Fault other = s.service.take(device, {base, 2, true, false, false});
    bool asked = false;
    // Just before the wake, when all pages are in place, another processor's fault is retried
    // repeatedly.
    s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
      if (operation != "wake" || asked) return;
      asked = true;
      const std::uint64_t enough = now_ns() + MinimumResidency::unwoken_limit_ns / 4;
      while (const auto due = s.service.resolve(other)) {
        // The next retry is soon, because the wake may happen at any moment.
        CHECK(*due <= now_ns() + MinimumResidency::residence_ns);
        CHECK(s.machine.at(0).holds({0}));
        ++refusals;
        while (now_ns() < *due) std::this_thread::yield();
        if (now_ns() > enough) break;
      }
    };
    s.touch(host, {0});
  }
  CHECK(refusals > 0);
}

TEST_CASE("a stale message changes nothing and wakes once") {
  Setup s;
  s.touch(host, {0});
  s.machine.log.clear();
  s.touch(host, {5});
  CHECK(s.machine.at(0).held() == 16);
  CHECK(s.woke(host, {5}));
}

TEST_CASE("a fault that was put off does nothing for memory that was allocated since") {
  Setup s;
  Block& state = s.machine.blocks().at({0});
  Fault fault = s.service.take(device, {base, 1, true, false, false});
  {
    const LockGuard guard(state.lock);
    state.transfer_begun({0, 16});
  }
  REQUIRE(s.service.resolve(fault));
  {
    const LockGuard guard(state.lock);
    state.transfer_ended({0, 16});
  }
  s.free(s.whole);
  s.whole = s.address_space.allocate(4 * block_size, 0).value();
  CHECK_FALSE(s.service.resolve(fault));
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.woke(device, {0}));
}

TEST_CASE("a page left write-protected is unprotected by the next write") {
  Setup s;
  s.touch(host, {0});
  REQUIRE(s.machine.at(0).write_protect({{0}, 1}, nullptr));
  s.answer(host, {base, 1, true, true, false});
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(s.woke(host, {0}));
  CHECK(s.machine.memory(0).counters.faults_write_protect == 1);
}

TEST_CASE("a full pool evicts its oldest block to the host, and never exceeds its capacity") {
  Setup s;
  std::size_t most = 0;
  s.machine.before = [&](const std::string&, Processor, PageSpan) {
    most = std::max(most, s.machine.at(1).held());
  };
  for (std::uint64_t page = 0; page < 4 * pages_per_block; page += 16) {
    s.touch(device, {page});
    s.machine.at(1).set_value({page}, page + 1);
  }
  CHECK(most <= 512);
  CHECK(s.machine.memory(1).counters.evicted == 3 * pages_per_block);
  CHECK(s.machine.at(0).holds({0}));
  CHECK(s.machine.at(1).holds({4 * pages_per_block - 1}));
  for (std::uint64_t page = 0; page < 4 * pages_per_block; page += 16)
    CHECK(s.machine.at(s.machine.at(1).holds({page}) ? 1 : 0).value({page}) == page + 1);
}

TEST_CASE(
    "a second access to unallocated memory is forbidden and woken, and its address is retired") {
  Setup s;
  s.free(s.whole);
  s.touch(host, {700});
  CHECK_FALSE(s.machine.at(0).forbids({700}));  // the first message may have been stale
  CHECK(s.woke(host, {700}));
  s.machine.log.clear();
  s.touch(host, {700});
  CHECK(s.machine.at(0).forbids({700}));
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.woke(host, {700}));
  // The 2 MiB around the page are never allocated again.
  std::vector<std::uint64_t> offsets;
  while (const auto next = s.address_space.allocate(block_size, 0)) offsets.push_back(next->offset);
  CHECK(offsets == std::vector<std::uint64_t>{0, 2 * block_size, 3 * block_size});
}

TEST_CASE("an access that is read after its memory was freed is refused at once") {
  Setup s;
  const FaultMessage message{base + 5 * page_size, 7, false, false, false};
  const MemoryChanges live = s.service.changes();
  s.free(s.whole);
  const MemoryChanges freed = s.service.changes();
  // The message of this fault may have been read before the free.
  Fault stale = s.service.take(device, message, live);
  CHECK_FALSE(s.service.resolve(stale));
  CHECK_FALSE(stale.refused);
  CHECK_FALSE(s.machine.at(1).forbids({5}));
  Fault fault = s.service.take(host, message, freed);
  CHECK_FALSE(s.service.resolve(fault));
  CHECK(fault.refused);
  // All the 2 MiB around the page are retired, and threads that sleep on faults there are woken.
  for (const std::uint64_t page : {0, 5, 511}) {
    CHECK(s.machine.at(0).forbids({page}));
    CHECK(s.woke(host, {page}));
  }
  CHECK_FALSE(s.machine.at(0).forbids({512}));
}

TEST_CASE("only the page is forbidden where its neighbours may be allocated again") {
  Setup s;
  s.free(s.whole);
  const auto first = s.address_space.allocate(page_size, 0).value();
  const auto second = s.address_space.allocate(page_size, 0).value();
  REQUIRE(block_of(first.pages().first) == block_of(second.pages().first));
  // Between begin_free() and end_free() other pages of the allocation may still be mapped.
  REQUIRE(s.address_space.begin_free(first.offset));
  const std::uint64_t at = first.offset;
  Fault early = s.service.take(host, {base + at, 7, true, false, false}, s.service.changes());
  CHECK_FALSE(s.service.resolve(early));
  CHECK(early.refused);
  CHECK(s.machine.at(0).forbids(page_at_offset(at)));
  CHECK_FALSE(s.machine.at(0).forbids(page_at_offset(at) + 1));
  s.address_space.end_free(first);
  Fault late = s.service.take(host, {base + at, 8, true, false, false}, s.service.changes());
  CHECK_FALSE(s.service.resolve(late));
  // The 64 KiB of the first allocation, and nothing of the second.
  CHECK(s.machine.at(0).forbids(page_at_offset(at) + 15));
  CHECK_FALSE(s.machine.at(0).forbids(second.pages().first));
}

TEST_CASE(
    "each of thousands of threads that access freed memory is refused after two messages at most") {
  const std::uint32_t threads = scale() < 1 ? 1'500 : 5'000;
  constexpr std::uint64_t blocks = 4;
  Setup s;
  s.free(s.whole);
  unsigned refused = 0;
  // A message may be older than the free, so in the first round the service only wakes each thread.
  // In the second round each thread faults again, after all others, and is refused.
  for (int round = 0; round < 2; ++round) {
    refused = 0;
    for (std::uint32_t thread = 1; thread <= threads; ++thread) {
      const std::uint64_t page = thread * 17 % (blocks * pages_per_block);
      Fault fault = s.service.take(device, {base + page * page_size, thread, false, false, false});
      CHECK_FALSE(s.service.resolve(fault));
      refused += fault.refused ? 1 : 0;
    }
  }
  CHECK(refused == threads);
}

TEST_CASE("pages are forbidden under their block's lock, and hidden by their process without it") {
  Setup s;
  s.free(s.whole);
  std::vector<std::string> calls;
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation != "forbid" && operation != "hide") return;
    const bool is_free = std::async(std::launch::async, [&] {
                           Block& block = s.machine.blocks().at({0});
                           if (!block.lock.try_lock()) return false;
                           block.lock.unlock();
                           return true;
                         }).get();
    calls.push_back(operation + (is_free ? " without the lock" : " under the lock"));
  };
  s.machine.failures = {{"forbid", OpStatus::unsupported, 0}};
  s.touch(host, {5});
  s.touch(host, {5});
  CHECK(calls == std::vector<std::string>{"forbid under the lock", "hide without the lock"});
  CHECK(s.machine.at(0).forbids({5}));
  CHECK(s.woke(host, {5}));
}

TEST_CASE("a mapped page is hidden, and its entry is not touched") {
  Setup s;
  s.touch(host, {5});
  s.machine.log.clear();
  // The page is lost, but its state says that it is mapped.
  REQUIRE(s.machine.at(0).punch({{5}, 1}) == 0);
  Fault fault = s.service.take(host, {base + 5 * page_size, 1, false, false, false});
  CHECK_FALSE(s.service.resolve(fault));
  CHECK(fault.refused);
  for (const std::string& line : s.machine.log) CHECK_FALSE(line.starts_with("forbid"));
  CHECK(s.machine.at(0).forbids({5}));
}

TEST_CASE("stale messages about freed memory retire no addresses") {
  Setup s;
  s.free(s.whole);
  for (std::uint64_t page = 0; page < 4 * pages_per_block; page += 8) s.touch(device, {page});
  CHECK(s.address_space.allocate(4 * block_size, 0));
  CHECK(s.machine.at(1).held() == 0);
}

TEST_CASE("several stale messages of one thread do not count as a second access to freed memory") {
  Setup s;
  std::vector<Fault> late;
  for (int i = 0; i < 3; ++i)
    late.push_back(s.service.take(device, {base, 7, false, false, false}));
  s.free(s.whole);
  for (Fault& fault : late) {
    s.machine.log.clear();
    CHECK_FALSE(s.service.resolve(fault));
    CHECK(s.woke(device, {0}));
  }
  CHECK_FALSE(s.machine.at(1).forbids({0}));
  Fault back = s.service.take(device, {base, 7, false, false, false});
  CHECK_FALSE(s.service.resolve(back));
  CHECK(s.machine.at(1).forbids({0}));
}

TEST_CASE("stale messages of one thread about memory that is freed again and again do not add up") {
  Setup s;
  for (int i = 0; i < 3; ++i) {
    Fault late = s.service.take(device, {base, 7, false, false, false});
    s.free(s.whole);
    s.machine.log.clear();
    CHECK_FALSE(s.service.resolve(late));
    CHECK(s.woke(device, {0}));
    s.whole = s.address_space.allocate(4 * block_size, 0).value();
    CHECK(s.whole.offset == 0);
  }
  CHECK_FALSE(s.machine.at(1).forbids({0}));
}

TEST_CASE("an access to freed memory is refused even if other memory is freed all the time") {
  Setup s;
  s.free(s.whole);
  // A pause of 100 ms between two rounds, as on a busy machine, begins the count again.
  for (unsigned i = 0; i <= 10 * StaleFaults::rounds_max && !s.machine.at(1).forbids({0}); ++i) {
    const Allocation other = s.address_space.allocate(page_size, 0).value();
    s.free(other);
    Fault fault = s.service.take(device, {base, 7, false, false, false});
    (void)s.service.resolve(fault);
  }
  CHECK(s.machine.at(1).forbids({0}));
}

TEST_CASE("without memory for the page the access is forbidden, and the thread is woken") {
  Setup s;
  s.machine.failures.assign(1000, {"zero", OpStatus::no_memory, 0});
  s.touch(host, {0});
  CHECK(s.machine.at(0).forbids({0}));
  CHECK(s.woke(host, {0}));
}

TEST_CASE("a temporary shortage of memory only delays the thread") {
  Setup s;
  s.machine.failures = {{"zero", OpStatus::no_memory, 0}, {"zero", OpStatus::no_memory, 0}};
  s.touch(host, {0});
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK_FALSE(s.machine.at(0).forbids({0}));
}

TEST_CASE("an eviction that has to be retried does not fail the fault that waits for it") {
  Setup s;
  for (std::uint64_t page = 0; page < pages_per_block; page += 16) s.touch(device, {page});
  const char* step = GENERATE("protect", "copy");
  const OpStatus answer = GENERATE(OpStatus::incomplete, OpStatus::no_memory);
  s.machine.failures = {{step, answer, 0}, {step, answer, 3}};
  s.touch(device, {pages_per_block});
  CHECK(s.machine.at(1).maps_writable({pages_per_block}));
  CHECK_FALSE(s.machine.at(1).forbids({pages_per_block}));
}

TEST_CASE("a device whose node is out of memory evicts before it gives up") {
  Setup s;
  s.touch(device, {0});
  s.machine.failures = {{"zero", OpStatus::no_memory, 0}};
  s.touch(device, {512});
  CHECK(s.machine.at(1).holds({512}));
  CHECK(s.machine.at(0).holds({0}));
  CHECK_FALSE(s.machine.at(1).forbids({512}));
}

TEST_CASE("a short copy that did not reach the page is tried again") {
  Setup s;
  s.touch(host, {0});
  s.machine.failures = {{"copy", OpStatus::incomplete, 2}, {"copy", OpStatus::incomplete, 0}};
  s.touch(device, {15});
  CHECK(s.machine.at(1).holds({15}));
  CHECK(s.woke(device, {15}));
}

TEST_CASE("a fault of a process that died meanwhile is dropped") {
  Setup s;
  s.touch(host, {0});
  s.machine.at(1).die();
  s.touch(device, {0});
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(s.machine.at(1).held() == 0);
}

TEST_CASE("a page that vanished from its pool ends the thread, which does not fault forever") {
  Setup s;
  s.touch(host, {0});
  REQUIRE(s.machine.at(0).punch({{0}, 1}) == 0);
  s.touch(host, {0});
  CHECK(s.machine.at(0).forbids({0}));
  CHECK(s.woke(host, {0}));
}

TEST_CASE(
    "a first touch creates the page at the preferred device, mapped remotely at the faulting "
    "processor") {
  Setup s;
  s.switcher.start();
  s.prefer({{0}, 512}, Location::device(0));
  s.touch(host, {21});
  CHECK(s.machine.at(1).held() == 16);
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.machine.at(0).view({21}) == 1);
  CHECK(s.machine.at(0).maps_writable({21}));
  CHECK(s.woke(host, {21}));
  CHECK(s.machine.memory(0).counters.mapped_remotely == 16);
}

TEST_CASE("a fault that the policy delays is answered when the delay is over") {
  Setup s;
  s.touch(host, {0});
  Setup::let_residency_end();
  s.policy.opinion.wait_until_ns = now_ns() + 4'000'000'000;  // less than every limit
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  CHECK(s.service.resolve(fault) == s.policy.opinion.wait_until_ns);
  CHECK(s.machine.memory(1).counters.throttled == 1);
  CHECK(s.machine.at(0).holds({0}));
  CHECK_FALSE(s.woke(device, {0}));
  // The policy is asked again, and no longer delays the fault.
  s.policy.opinion = {};
  while (s.service.resolve(fault)) std::this_thread::yield();
  CHECK(s.machine.at(1).holds({0}));
  CHECK(s.woke(device, {0}));
}

TEST_CASE("a delay by the policy beyond the limit is ignored") {
  Setup s;
  s.touch(host, {0});
  Fault fault = s.service.take(device, {base, 2, true, false, false});
  s.policy.opinion.wait_until_ns = now_ns() + 1'000'000'000;
  CHECK(s.service.resolve(fault));
  fault.taken_ns -= 5'000'000'000;
  while (s.service.resolve(fault)) std::this_thread::yield();
  CHECK_FALSE(fault.refused);
  CHECK(s.woke(device, {0}));
  CHECK(s.machine.at(1).holds({0}));
}

TEST_CASE("of a large region only the fault's part moves while others keep the rest of it") {
  Setup s;
  s.touch(host, {0});
  s.touch(host, {100});
  Setup::let_residency_end();
  s.policy.opinion.region = PageRun{0, 512};
  // Another processor has just got another part of the block, and its minimum residency runs.
  s.machine.blocks().at({0}).minimum_residency.begin({96, 16}, host, now_ns());
  s.touch(device, {2});
  CHECK(s.machine.at(1).holds({2}));
  CHECK(s.machine.at(1).holds({15}));
  CHECK(s.machine.at(0).holds({100}));
  CHECK(s.woke(device, {2}));
}

TEST_CASE("temporarily pinned pages are mapped where they are, and fault again when the pin ends") {
  Setup s;
  s.switcher.start();
  s.touch(host, {21});
  Setup::let_residency_end();
  CHECK_FALSE(s.service.temporary_pins().next_end());
  s.pin_until(now_ns() + 100'000'000);
  s.touch(device, {21});
  CHECK(s.machine.at(0).holds({21}));
  CHECK(s.machine.at(1).held() == 0);
  CHECK(s.machine.at(1).view({21}) == 0);
  CHECK(s.machine.at(1).maps_writable({21}));
  CHECK_FALSE(s.machine.at(1).maps({22}));
  CHECK(s.machine.memory(0).counters.thrash_pinned == 1);
  CHECK(s.service.temporary_pins().next_end() == s.policy.opinion.pin_until_ns);
  // The pin does not end before its time, and does not end twice.
  s.service.temporary_pins().end_due(s.policy.opinion.pin_until_ns - 1);
  s.switcher.wait_until_done(1000);
  CHECK(s.machine.at(1).maps({21}));
  s.service.temporary_pins().end_due(s.policy.opinion.pin_until_ns);
  s.switcher.wait_until_done(1000);
  // The pin is checked once more, because the view may not have been changed at once.
  while (const auto next = s.service.temporary_pins().next_end())
    s.service.temporary_pins().end_due(*next);
  CHECK_FALSE(s.machine.at(1).maps({21}));
  CHECK(s.machine.at(1).view({21}) == 1);
  CHECK(s.machine.at(0).holds({21}));
  CHECK(s.machine.memory(0).counters.thrash_unpinned == 1);
  CHECK_FALSE(s.service.temporary_pins().next_end());
  s.policy.opinion = {};
  s.touch(device, {21});
  CHECK(s.machine.at(1).holds({21}));
}

TEST_CASE("a temporary pin that ends before the pages were mapped ends in the same way") {
  Setup s;
  s.touch(host, {21});
  Setup::let_residency_end();
  s.pin_until(now_ns() + 1);
  // The view switcher has not been started yet.
  Fault fault = s.service.take(device, {base + 21 * page_size, 2, true, false, false});
  REQUIRE(s.service.resolve(fault));
  s.service.temporary_pins().end_due(s.policy.opinion.pin_until_ns);
  s.switcher.start();
  s.switcher.wait_until_done(1000);
  while (const auto next = s.service.temporary_pins().next_end()) {
    s.service.temporary_pins().end_due(*next);
    s.switcher.wait_until_done(1000);
  }
  CHECK(s.machine.at(1).view({21}) == 1);
  CHECK_FALSE(s.machine.at(1).maps({21}));
  s.policy.opinion = {};
  while (s.service.resolve(fault)) std::this_thread::yield();
  CHECK(s.woke(device, {21}));
  CHECK(s.machine.at(1).holds({21}));
}

TEST_CASE("of the threads that sleep, one wakes for the end of the next pin") {
  Setup s;
  TemporaryPins& pins = s.service.temporary_pins();
  CHECK_FALSE(pins.wake_time());
  REQUIRE(pins.begin({0}, {0, 16}, host, 5'000));
  const auto first = pins.wake_time();
  CHECK(first == 5'000);
  CHECK_FALSE(pins.wake_time());
  REQUIRE(pins.begin({0}, {16, 16}, host, 3'000));
  const auto second = pins.wake_time();
  CHECK(second == 3'000);
  // When the first thread wakes, the second one still wakes at the earlier time.
  pins.woke(first);
  CHECK_FALSE(pins.wake_time());
  pins.woke(second);
  CHECK(pins.wake_time() == 3'000);
}

TEST_CASE("a processor that is advised to access pinned pages still maps them after the pin") {
  Setup s;
  s.switcher.start();
  s.touch(host, {21});
  s.accessed_by({{0}, 512}, device);
  s.pin_until(now_ns());
  s.touch(device, {21});
  REQUIRE(s.machine.at(1).maps({21}));
  s.service.temporary_pins().end_due(now_ns());
  s.switcher.wait_until_done(1000);
  CHECK(s.machine.at(1).maps({21}));
}

TEST_CASE("pages that are freed during a temporary pin are not reported as unpinned") {
  Setup s;
  s.switcher.start();
  s.touch(host, {21});
  s.pin_until(now_ns());
  s.touch(device, {21});
  Block& block = s.machine.blocks().at({0});
  {
    const LockedBlock locked({0}, block);
    s.engine.release(locked, {0, 512});
    CHECK(locked.state.history == nullptr);
  }
  s.service.temporary_pins().end_due(now_ns());
  CHECK(s.machine.memory(0).counters.thrash_unpinned == 0);
}

TEST_CASE(
    "a page whose preferred device has ended goes to its pool, and is mapped remotely there") {
  Setup s;
  s.switcher.start();
  s.prefer({{0}, 512}, Location::device(0));
  s.machine.at(1).die();
  s.touch(host, {0});
  CHECK(s.machine.at(1).holds({0}));
  CHECK(s.machine.at(0).maps_writable({0}));
  CHECK(s.machine.at(0).view({0}) == 1);
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.machine.memory(1).capacity.reserved() == s.machine.at(1).held());
  CHECK(s.woke(host, {0}));
}

TEST_CASE("where the process has no mappings left the page comes to its own pool") {
  Setup s;
  s.switcher.start();
  s.prefer({{0}, 512}, Location::device(0));
  s.touch(device, {0});
  s.machine.at(1).set_value({3}, 33);
  s.machine.view_error = ENOMEM;
  s.touch(host, {3});
  CHECK(s.machine.at(0).holds({3}));
  CHECK(s.machine.at(0).value({3}) == 33);
  CHECK(s.machine.at(0).view({3}) == 0);
  CHECK(s.machine.at(0).maps_writable({3}));
  CHECK_FALSE(s.machine.at(1).holds({3}));
  CHECK(s.woke(host, {3}));
}

TEST_CASE("processors with accessed-by map the pages before the faulting processor is woken") {
  Setup s;
  s.switcher.start();
  s.accessed_by({{0}, 512}, host);
  bool followed = false;
  s.machine.before = [&](const std::string& operation, Processor p, PageSpan) {
    if (operation == "wake" && p == device) followed = s.machine.at(0).maps_writable({5});
  };
  s.touch(device, {5});
  CHECK(s.machine.at(1).holds({5}));
  CHECK(s.machine.at(0).view({5}) == 1);
  CHECK(followed);
}

TEST_CASE("the wait for a processor with accessed-by has a limit") {
  Setup s;  // the view switcher is not started
  s.accessed_by({{0}, 512}, host);
  s.touch(device, {5});
  CHECK(s.machine.at(1).maps_writable({5}));
  CHECK_FALSE(s.machine.at(0).maps({5}));
  CHECK(s.woke(device, {5}));
}

TEST_CASE("a processor with accessed-by that is overdue is not waited for, until it answers") {
  Setup s;  // the view switcher is not started: no request is carried out
  s.accessed_by({{0}, 512}, host);
  const FaultMessage message{base + 5 * page_size, 1, true, false, false};
  s.machine.at(0).set_overdue(true);
  Fault fault = s.service.take(device, message);
  CHECK_FALSE(s.service.resolve(fault));
  CHECK(s.woke(device, {5}));
  CHECK_FALSE(s.machine.at(0).maps({5}));
  s.machine.at(0).set_overdue(false);
  Fault next = s.service.take(device, {base + 100 * page_size, 1, true, false, false});
  CHECK(s.service.resolve(next));
  // The requests have stayed in the queue.
  s.switcher.start();
  REQUIRE(s.switcher.wait_until_done(60'000));
  CHECK(s.machine.at(0).maps_writable({5}));
}

TEST_CASE("a fault of a processor whose views cannot change brings the page, and does not wait") {
  Setup s;
  s.touch(host, {5});
  s.prefer({{0}, 512}, Location::host());
  s.machine.at(1).set_overdue(true);
  Fault fault = s.service.take(device, {base + 5 * page_size, 1, true, false, false});
  while (const auto due = s.service.resolve(fault)) {
    REQUIRE(fault.wait.waited.ns() < 1'000'000'000);
    while (now_ns() < *due) std::this_thread::yield();
  }
  CHECK(s.machine.at(1).maps_writable({5}));
  CHECK(s.machine.at(1).holds({5}));
}

TEST_CASE("a processor with accessed-by and no mappings left is not waited for") {
  Setup s;
  s.switcher.start();
  s.accessed_by({{0}, 512}, host);
  s.machine.view_error = ENOMEM;
  s.touch(device, {5});
  CHECK(s.machine.at(1).maps_writable({5}));
  CHECK_FALSE(s.machine.at(0).maps({5}));
  CHECK_FALSE(s.machine.at(0).forbids({5}));
}

TEST_CASE("a read makes copies of read-mostly pages, a write ends the copies of its region") {
  Setup s;
  s.advice.change({{0}, 512}, {AdviceChange::Kind::set_read_mostly, {}});
  s.touch(host, {0});
  s.machine.at(0).set_value({2}, 22);
  s.touch(device, {2}, false);
  CHECK(s.machine.at(0).held() == 16);
  CHECK(s.machine.at(1).held() == 16);
  CHECK(s.machine.at(1).value({2}) == 22);
  CHECK_FALSE(s.machine.at(0).maps_writable({2}));
  s.answer(device, {base + 2 * page_size, 1, true, true, false});
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.machine.at(1).maps_writable({2}));
  CHECK(s.machine.memory(1).counters.collapsed == 16);
}

TEST_CASE("a copy stays with its reader for a moment before a write elsewhere ends it") {
  bool refused = false;
  // Repeated if this thread is descheduled for longer than the minimum residency.
  for (int round = 0; round < 20 && !refused; ++round) {
    Setup s;
    s.advice.change({{0}, 512}, {AdviceChange::Kind::set_read_mostly, {}});
    s.touch(host, {0});
    Fault write = s.service.take(host, {base, 2, true, true, false});
    bool asked = false;
    // All pages are in place for the reader, which has not been woken yet.
    s.machine.before = [&](const std::string& operation, Processor p, PageSpan) {
      if (operation != "wake" || p != device || asked) return;
      asked = true;
      refused = s.service.resolve(write).has_value();
      CHECK(s.machine.at(1).holds({0}) == refused);
    };
    s.touch(device, {0}, false);
    if (!refused) continue;
    s.resolve(write);
    CHECK_FALSE(s.machine.at(1).holds({0}));
    CHECK(s.machine.at(0).maps_writable({0}));
  }
  CHECK(refused);
}

TEST_CASE("if a full pool can evict nothing, the page stays where it is, and is mapped there") {
  Setup s;
  s.switcher.start();
  // All pages of device 0 are pinned.
  s.advice.change({{0}, 512}, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  REQUIRE(s.machine.memory(1).capacity.reserved() == 512);

  s.touch(host, {600});
  s.machine.at(0).set_value({600}, 4711);
  s.touch(device, {600});
  CHECK(s.machine.at(0).holds({600}));
  CHECK(s.machine.at(1).view({600}) == 0);
  CHECK(s.machine.at(1).maps_writable({600}));
  // A page that does not exist yet is created in a pool with space.
  s.touch(device, {700});
  CHECK(s.machine.at(0).holds({700}));
  CHECK(s.machine.at(1).view({700}) == 0);
  CHECK(s.woke(device, {700}));
  CHECK(s.machine.at(1).held() == 512);
  for (std::uint64_t page = 0; page < 512; ++page) REQUIRE(s.machine.at(1).holds({page}));
}

// Lets the device fault on a page of the host. The device's view cannot change for a moment, so the
// fault asks for the page in the device's pool, where there is no space.
void expect_seen_elsewhere(Setup& s, std::uint64_t view_changes_after_ns) {
  s.switcher.start();
  s.touch(host, {600});
  s.machine.view_error = ENOMEM;
  Fault fault = s.service.take(device, {base + 600 * page_size, 1, true, false, false});
  while (const auto due = s.service.resolve(fault)) {
    if (fault.wait.waited.ns() > view_changes_after_ns) s.machine.view_error = 0;
    REQUIRE(fault.wait.waited.ns() < 5'000'000'000);
    while (now_ns() < *due) std::this_thread::yield();
  }
  CHECK(s.machine.view_error == 0);
  CHECK(s.machine.at(0).holds({600}));
  CHECK(s.machine.at(1).view({600}) == 0);
  CHECK(s.machine.at(1).maps_writable({600}));
}

TEST_CASE("a fault without space at home sees the page elsewhere as soon as its view can change") {
  Setup s;
  // All pages of device 0 are pinned.
  s.advice.change({{0}, 512}, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  expect_seen_elsewhere(s, 100'000'000);  // longer than the request for the view takes to fail
}

TEST_CASE("a fault that has waited for long in its pool's line sees the page elsewhere, too") {
  Setup s;
  Capacity& capacity = s.machine.memory(1).capacity;
  REQUIRE(capacity.try_reserve(512));
  Reservation older;
  REQUIRE_FALSE(older.join_line(capacity, 400));
  expect_seen_elsewhere(s, 2'300'000'000);  // longer than a fault waits in a line
}

TEST_CASE("device memory is never created in another pool, even if its own is full") {
  Setup s;
  s.free(s.whole);
  const auto managed = s.address_space.allocate(2 * block_size, 0);
  const auto own = s.address_space.allocate(block_size, 0, {device});
  REQUIRE((managed && own));
  s.advice.change(managed->pages(), {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t i = 0; i < 512; i += 16) s.touch(device, managed->pages().first + i);
  REQUIRE(s.machine.memory(1).capacity.reserved() == 512);
  const PageIndex page = own->pages().first + 7;
  s.touch(device, page);
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.machine.at(2).held() == 0);
  CHECK(s.machine.at(1).held() == 512);
  // The access is forbidden, and its thread does not hang.
  CHECK(s.machine.at(1).forbids(page));
  CHECK(s.woke(device, page));
}

TEST_CASE(
    "an evicted block comes back with one fault, or only the region if the block does not fit") {
  Setup s(1024);
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  REQUIRE(s.evictor.evict_one({device, 0, {0}}) == OpStatus::ok);
  REQUIRE(s.machine.at(0).held() == 512);
  s.machine.at(0).set_value({300}, 4711);

  SECTION("the whole block") {
    s.touch(device, {40});
    CHECK(s.machine.at(1).held() == 512);
    CHECK(s.machine.at(1).value({300}) == 4711);
    // Afterwards faults move regions as usual.
    s.touch(host, {16});
    CHECK(s.machine.at(0).held() == 16);
    s.touch(device, {16});
    s.touch(host, {32});
    CHECK(s.machine.at(0).held() == 16);
  }
  SECTION("no space for all") {
    s.advice.change({{512}, 600}, {AdviceChange::Kind::pinned, {}});
    for (std::uint64_t page = 512; page < 1112; ++page) s.touch(device, {page});
    REQUIRE(s.machine.at(1).holds({1100}));
    s.touch(device, {40});
    CHECK(s.machine.at(1).holds({32}));
    CHECK(s.machine.at(1).holds({47}));
    CHECK_FALSE(s.machine.at(1).holds({48}));
    CHECK(s.machine.at(1).view({40}) == 1);
  }
}

TEST_CASE(
    "a minor fault on a block that Linux mapped by a huge entry maps all of it, a stale one "
    "nothing") {
  Setup s;
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  Block& block = s.machine.blocks().at({0});
  {
    const LockGuard guard(block.lock);
    block.entered_whole = device.bit();
  }
  const FaultMessage minor{base + 100 * page_size, 1, false, false, true};
  s.machine.at(1).unmap({7});
  s.answer(device, minor);
  CHECK_FALSE(s.machine.at(1).maps({7}));
  for (std::uint64_t page = 0; page < 512; ++page) s.machine.at(1).unmap({page});
  s.answer(device, minor);
  for (std::uint64_t page = 0; page < 512; ++page) REQUIRE(s.machine.at(1).maps_writable({page}));
  // From now on the block is mapped by entries of small pages.
  for (std::uint64_t page = 0; page < 512; ++page) s.machine.at(1).unmap({page});
  s.answer(device, minor);
  CHECK(s.machine.at(1).maps({100}));
  CHECK_FALSE(s.machine.at(1).maps({200}));
}

TEST_CASE("eviction takes the unpinned pages of a block, and skips blocks that are all pinned") {
  Setup s;
  s.advice.change({{0}, 64}, {AdviceChange::Kind::pinned, {}});
  s.advice.change({{128}, 16}, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(device, {page});
  REQUIRE(s.machine.memory(1).capacity.reserved() == 512);
  s.touch(device, {1000});
  CHECK(s.machine.at(1).holds({1000}));
  for (std::uint64_t page = 0; page < 512; ++page) {
    const bool pins = page < 64 || (page >= 128 && page < 144);
    REQUIRE(s.machine.at(1).holds({page}) == pins);
    REQUIRE(s.machine.at(0).holds({page}) == !pins);
  }
}

TEST_CASE("where mappings are scarce a fault brings a whole grain") {
  Setup s;
  const Processor whose = GENERATE(host, device);  // the source's mappings are split, too
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(host, {page});
  s.machine.at(whose.index).set_grain(512);
  s.let_residency_end();
  s.touch(device, {200});
  CHECK(s.machine.at(1).held() == 512);
  CHECK(s.machine.at(0).held() == 0);
  CHECK(s.machine.at(1).maps_writable({0}));
  CHECK(s.machine.at(1).maps_writable({511}));
  CHECK(s.woke(device, {200}));
  CHECK(s.machine.memory(1).counters.faults_missing == 1);
}

TEST_CASE("the grain of processors that do not use a page has no effect on it") {
  Setup s;
  s.touch(host, {0});
  s.touch(host, {16});
  s.machine.at(2).set_grain(512);
  s.touch(device, {0});
  CHECK(s.machine.at(1).held() == 16);
}

TEST_CASE(
    "a grain does not include pinned pages, other advice, other places or another allocation") {
  Setup s;
  s.free(s.whole);
  const Allocation one = s.address_space.allocate(256 * page_size, 0).value();
  const Allocation other = s.address_space.allocate(64 * page_size, 0).value();
  REQUIRE(block_of(one.pages().first) == block_of(other.pages().first));
  const PageIndex first = one.pages().first;
  const PageIndex others = other.pages().first;
  for (std::uint64_t page = 0; page < 256; page += 16) s.touch(host, first + page);
  for (std::uint64_t page = 0; page < 64; page += 16) s.touch(host, others + page);
  s.touch(Processor::device(1), first + 48);
  s.advice.change({first + 128, 128}, {AdviceChange::Kind::pinned, {}});
  s.machine.at(0).set_grain(512);
  s.let_residency_end();
  s.touch(device, first);
  CHECK(s.machine.at(1).held() == 128 - 16);
  CHECK(s.machine.at(2).held() == 16);
  CHECK(s.machine.at(0).held() == 128 + 64);
  s.switcher.start();
  s.touch(device, first + 130);  // pinned: it stays, and is mapped remotely
  CHECK(s.machine.at(1).held() == 128 - 16);
  CHECK_FALSE(s.machine.at(1).maps(others));
}

TEST_CASE("holes in the grain are filled, so that they split no mapping") {
  Setup s;
  for (std::uint64_t page = 0; page < 512; page += 32) s.touch(device, {page});
  s.touch(host, {48});
  s.machine.at(1).set_grain(512);
  s.let_residency_end();
  SECTION("around a page that is here") {
    s.touch(device, {0});
    CHECK(s.machine.at(0).held() == 16);
    CHECK(s.machine.at(1).held() == 512 - 16);
  }
  SECTION("around a page that arrives") {
    s.touch(device, {50});
    CHECK(s.machine.at(1).held() == 512);
  }
  CHECK(s.machine.at(1).maps_writable({20}));
  CHECK(s.machine.at(1).maps_writable({511}));
}

TEST_CASE("nothing is evicted for the grain, and it ends no thread") {
  Setup s;
  for (std::uint64_t page = 512; page < 1008; page += 16) s.touch(device, {page});
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(host, {page});
  s.machine.at(0).set_grain(512);
  s.let_residency_end();
  SECTION("the pool has no space for more than a region") {
    s.touch(device, {40});
    CHECK(s.machine.at(1).held() == 512);
    CHECK(s.machine.at(1).maps_writable({32}));
    CHECK(s.machine.memory(1).counters.evicted == 0);
  }
  SECTION("Linux has no memory for more") {
    const Processor second = Processor::device(1);
    s.machine.failures = {{"copy", OpStatus::no_memory, 3}};
    s.touch(second, {40});
    CHECK(s.machine.at(2).holds({40}));
    CHECK(s.machine.at(2).maps_writable({40}));
    CHECK(s.machine.memory(2).counters.evicted == 0);
  }
}

TEST_CASE("where access to neighbours may have been lost, too, a fault restores its whole grain") {
  Setup s;
  for (std::uint64_t page = 0; page < 512; page += 16) s.touch(host, {page});
  const auto take_all_away = [&] {
    for (std::uint64_t page = 0; page < 512; ++page) s.machine.at(0).unmap({page});
  };
  for (const unsigned grain : {16u, 512u}) {
    s.machine.at(0).set_grain(grain);
    take_all_away();
    // Like the mprotect trap, which does not report the kind of fault.
    FaultMessage message;
    message.address = base + 200 * page_size;
    message.write = grain == 16;
    message.kind_known = false;
    s.answer(host, message);
    CHECK(s.machine.at(0).maps_writable({200}));
    CHECK(s.machine.at(0).maps_writable({192}));
    CHECK(s.machine.at(0).maps({0}) == (grain == 512));
    CHECK(s.machine.at(0).maps({511}) == (grain == 512));
  }
}

TEST_CASE("memory of a single device is refused to other processors, at their second access") {
  Setup s;
  const Allocation own = s.allocate_own();
  const PageIndex page = own.pages().first + 5;
  for (const Processor other : {host, Processor::device(1)}) {
    const FaultMessage message{base + offset_of(page), 7, true, false, false};
    // The first message may be stale: from before the memory became the device's.
    s.answer(other, message);
    CHECK(s.woke(other, page));
    CHECK_FALSE(s.machine.at(other.index).forbids(page));
    s.answer(other, message);
    CHECK(s.machine.at(other.index).forbids(page));
    CHECK_FALSE(s.machine.at(other.index).holds(page));
  }
  s.touch(device, page);
  CHECK(s.machine.at(1).maps_writable(page));
}

TEST_CASE("messages that are stale each time access is removed do not count as a second access") {
  constexpr Processor peer = Processor::device(1);
  Setup s;
  const Allocation own = s.allocate_own();
  const PageIndex page = own.pages().first + 5;
  const FaultMessage message{base + offset_of(page), 7, true, false, false};
  for (int round = 0; round < 3; ++round) {
    s.answer(peer, message);
    CHECK(s.woke(peer, page));
    CHECK_FALSE(s.machine.at(peer.index).forbids(page));
    s.audiences.admit(own.owner.audience(), peer.bit());
    s.audiences.exclude(own.owner.audience(), peer.bit());
  }
  s.answer(peer, message);
  CHECK_FALSE(s.machine.at(peer.index).forbids(page));
  s.answer(peer, message);
  CHECK(s.machine.at(peer.index).forbids(page));
}

TEST_CASE("a peer with access maps a whole block remotely, until its access is removed") {
  constexpr Processor peer = Processor::device(1);
  Setup s;
  s.switcher.start();
  const Allocation own = s.allocate_own();
  const PageSpan pages = own.pages();
  s.advice.change(pages, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t i = 0; i < pages.count; i += pages_per_region)
    s.touch(device, pages.first + i);
  s.audiences.admit(own.owner.audience(), peer.bit());
  s.touch(peer, pages.first + 5);
  for (const PageIndex page : {pages.first, pages.first + 5, pages.end() - 1}) {
    CHECK(s.machine.at(2).view(page) == 1);
    CHECK(s.machine.at(2).maps_writable(page));
  }
  CHECK(s.machine.at(2).held() == 0);

  s.audiences.exclude(own.owner.audience(), peer.bit());
  CHECK(s.effects.take_back(std::span(&pages, 1), peer));
  CHECK(s.machine.at(2).view(pages.first) == 2);
  CHECK_FALSE(s.machine.at(2).maps_writable(pages.first + 5));
  CHECK(s.machine.at(1).maps_writable(pages.first + 5));
  for (int i = 0; i < 2; ++i) s.answer(peer, {base + pages.offset(), 7, true, false, false});
  CHECK(s.machine.at(2).forbids(pages.first));
  CHECK(s.machine.at(2).held() == 0);
}

}  // namespace wherry::test::fault_service_test
