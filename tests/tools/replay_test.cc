// Replays of recorded runs that the tests construct, under several policies.
#include "replay/replay.h"

#include <random>

#include "machine/policy_source.h"
#include "pages/sampled_use.h"
#include "replay/oracle.h"
#include "replay/policy_machine.h"
#include "support/catch.h"

namespace wherry::replay::replay_test {

using namespace wherry::impl;
using wherry::tool::Trace;

namespace {

constexpr std::uint64_t us = 1000;
constexpr std::uint64_t start = 1'000'000;
constexpr std::uint64_t base = std::uint64_t{1} << 40;
constexpr int host = 0;
constexpr int device = 1;

// Round numbers, so that sums can be recognized.
CostModel round_costs() {
  CostModel costs;
  costs.populate_host = costs.populate_device = {1000, 0};
  costs.migrate_to_host = costs.migrate_to_device = {10'000, 0};
  costs.duplicate = {8000, 0};
  costs.remote_map = {5000, 0};
  costs.minor_ns = 500;
  costs.collapse_ns = 3000;
  costs.evict_page_ns = 100;
  costs.prefetch_page_ns = 50;
  return costs;
}

// A recorded run with one host thread and one thread of a device. Its memory is allocated from the
// start.
class Run {
 public:
  explicit Run(std::uint64_t bytes, std::uint64_t capacity = 0, std::uint64_t region = 4096) {
    trace_.machine.start_ns = start;
    trace_.machine.page_bytes = page_size;
    trace_.machine.block_bytes = block_size;
    trace_.machine.region_bytes = region;
    trace_.machine.program = "by hand";
    trace_.machine.processors = {{TraceProcessor::Kind::host, true, 0, 0, {0}},
                                 {TraceProcessor::Kind::isolated, true, capacity, 1, {0}}};
    trace_.complete = true;
    add({.time_ns = start, .address = base, .bytes = bytes, .kind = EventKind::allocation});
  }

  Run& add(const TraceEvent& event) {
    trace_.events.push_back(event);
    trace_.end_ns = std::max(trace_.end_ns, event.time_ns + event.duration_ns);
    return *this;
  }
  // Times are relative to the start.
  Run& touch(int processor, std::uint64_t page, std::uint64_t time, std::uint64_t duration = us,
             bool write = true) {
    return add({.time_ns = start + time,
                .duration_ns = duration,
                .address = base + page * page_size,
                .bytes = page_size,
                .thread = static_cast<std::uint32_t>(100 + processor),
                .kind = EventKind::fault,
                .access = write ? EventAccess::write : EventAccess::read,
                .destination = static_cast<std::int8_t>(processor)});
  }
  // Pages arrived for a fault.
  Run& moved(int from, int to, std::uint64_t pages, std::uint64_t time, std::uint64_t duration) {
    return add({.time_ns = start + time,
                .duration_ns = duration,
                .address = base,
                .bytes = pages * page_size,
                .kind = EventKind::migration,
                .cause = EventCause::fault,
                .source = static_cast<std::int8_t>(from),
                .destination = static_cast<std::int8_t>(to)});
  }
  // A fault on a page that was mapped.
  Run& sample(int processor, std::uint64_t page, std::uint64_t time) {
    touch(processor, page, time, us, false);
    trace_.events.back().cause = EventCause::sample;
    return *this;
  }
  // Makes the latest event one of that thread.
  Run& by_thread(std::uint32_t thread) {
    trace_.events.back().thread = thread;
    return *this;
  }
  // Makes the device coherent: it uses the host's page table.
  Run& coherently() {
    trace_.machine.processors[device].kind = TraceProcessor::Kind::coherent;
    return *this;
  }
  Run& launch(EventKind begin_or_end, std::uint64_t time) {
    return add({.time_ns = start + time, .kind = begin_or_end, .destination = device});
  }
  Run& advise(AdviceDetail what, std::uint64_t time, std::uint64_t pages,
              std::int8_t where = TraceEvent::no_processor) {
    return add({.time_ns = start + time,
                .address = base,
                .bytes = pages * page_size,
                .kind = EventKind::advice,
                .cause = EventCause::advice,
                .detail = code_of(what),
                .destination = where});
  }
  Run& with_region(std::uint64_t bytes) {
    trace_.machine.region_bytes = bytes;
    return *this;
  }
  Run& end(std::uint64_t time) {
    trace_.end_ns = start + time;
    return *this;
  }

  const Trace& trace() const { return trace_; }
  Timeline timeline() const { return std::get<Timeline>(make_timeline(trace_)); }
  ReplayResult under(const std::string& policy, const CostModel& costs = round_costs()) const {
    const Timeline made = timeline();
    const MachineSetting setting = setting_of(made);
    const auto source = find_policy(policy);
    const auto chosen = std::get<PolicySource>(source)(policy_machine_of(trace_.machine, setting));
    return replay({made, setting, costs, *chosen, whole(trace_)});
  }
  ReplayResult under_oracle(const CostModel& costs = round_costs()) const {
    const Timeline made = timeline();
    Oracle oracle(made, costs);
    return replay({made, setting_of(made), costs, oracle, whole(trace_), oracle.current()});
  }

 private:
  Trace trace_;
};

// Host and device access a page in turns, the host first.
Run ping_pong(unsigned turns, std::uint64_t every) {
  Run run(page_size);
  for (unsigned i = 0; i < turns; ++i) run.touch(i % 2 == 0 ? host : device, 0, (1 + i) * every);
  return run;
}

Run random_run(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Run run(4 * block_size, block_size, 65536);
  std::uint64_t free_at[] = {1, 1};
  for (int i = 0; i < 2000; ++i) {
    const int processor = static_cast<int>(random() % 2);
    const std::uint64_t begin = std::max(free_at[0], free_at[1]);
    run.touch(processor, random() % (4 * pages_per_block), begin, 5 * us, random() % 2 == 0);
    free_at[processor] = begin + random() % (20 * us);
  }
  return run;
}

}  // namespace

TEST_CASE("under migrate-always each access by the other processor moves the page") {
  const Run run = ping_pong(11, 100 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.faults == 11);
  CHECK(counts.migrations == 10);
  CHECK(counts.migrated_pages == 10);
  CHECK(counts.mapped_pages == 0);
}

TEST_CASE("under first-touch a page is mapped once by the other processor") {
  const Run run = ping_pong(11, 100 * us);
  const ReplayResult result = run.under("first-touch");
  CHECK(result.counts.faults == 2);
  CHECK(result.counts.migrations == 0);
  CHECK(result.counts.mapped_pages == 1);
  CHECK(result.stall_ns == 1000 + 5000);
  CHECK(result.time_ns < run.under("migrate-always").time_ns);
}

TEST_CASE("the region of a page comes with it") {
  Run run(block_size, 0, 65536);
  run.touch(host, 0, 10 * us).touch(device, 3, 100 * us);
  const ReplayResult result = run.under("migrate-always");
  CHECK(result.counts.migrations == 1);
  CHECK(result.counts.migrated_pages == 16);
}

TEST_CASE("what held pages is not repeated: the pages move as under the policy") {
  Run run(block_size, 0, 65536);
  run.touch(host, 0, 10 * us).touch(device, 3, 100 * us);
  const ReplayResult without = run.under("migrate-always");
  run.add({.time_ns = start + 100 * us,
           .address = base,
           .bytes = 65536,
           .kind = EventKind::held,
           .cause = EventCause::fault,
           .source = host,
           .destination = device});
  const ReplayResult with = run.under("migrate-always");
  CHECK(with.counts.migrated_pages == without.counts.migrated_pages);
  CHECK(with.stall_ns == without.stall_ns);
  CHECK(with.time_ns == without.time_ns);
}

TEST_CASE("a step that happens as it was recorded takes the recorded time") {
  constexpr std::uint64_t waited = 30 * us, moving = 77 * us;
  Run run(page_size);
  run.touch(host, 0, 10 * us, 3 * us);
  run.add({.time_ns = start + 12 * us,
           .address = base,
           .bytes = page_size,
           .kind = EventKind::populate,
           .cause = EventCause::fault,
           .destination = host});
  run.touch(device, 0, 100 * us, waited + moving);
  run.add({.time_ns = start + 100 * us,
           .duration_ns = waited,
           .address = base,
           .bytes = page_size,
           .thread = 100 + device,
           .kind = EventKind::throttle_end,
           .destination = device});
  run.moved(host, device, 1, 100 * us + waited, moving / 2);
  // The replay does not throttle the fault.
  CHECK(run.under("migrate-always").stall_ns == 3 * us + moving);
  // A step that happens differently takes the time of the cost model.
  CHECK(run.under("first-touch").stall_ns == 3 * us + 5 * us);
}

TEST_CASE("a thread that was woken by the answer to another fault continues from there") {
  Run run(block_size, 0, 65536);
  for (std::uint64_t page = 0; page < 16; ++page) run.touch(host, page, (1 + page) * us, 0);
  const auto touch = [&](std::uint32_t thread, std::uint64_t page, std::uint64_t time,
                         std::uint64_t duration) {
    run.add({.time_ns = start + time,
             .duration_ns = duration,
             .address = base + page * page_size,
             .bytes = 65536,
             .thread = thread,
             .kind = EventKind::fault,
             .access = EventAccess::write,
             .destination = device});
  };
  touch(201, 0, 100 * us, 50 * us);
  run.moved(host, device, 16, 100 * us, 50 * us);
  // The first fault of thread 202 is answered long after the thread has continued.
  touch(202, 1, 110 * us, 200 * us);
  touch(202, 17, 160 * us, 5 * us);
  run.end(320 * us);
  const ReplayResult result = run.under("migrate-always");
  CHECK(result.counts.migrations == 1);
  CHECK(result.time_ns > 310 * us);
  CHECK(result.time_ns < 330 * us);
  CHECK(result.stall_ns < 130 * us);
}

TEST_CASE(
    "pages that came along are accessed one by one if they do not, if the thread is known to use "
    "them") {
  Run run(block_size, 0, 65536);
  for (std::uint64_t page = 0; page < 16; ++page) run.touch(host, page, (1 + page) * us, 0);
  // First the device accesses four pages, one after the other. Later one fault brings all 16.
  for (std::uint64_t page = 0; page < 4; ++page) run.touch(device, page, (100 + 20 * page) * us, 0);
  for (std::uint64_t page = 0; page < 16; ++page) run.touch(host, page, (300 + page) * us, 0);
  run.touch(device, 0, 400 * us, 10 * us).moved(host, device, 16, 400 * us, 10 * us);
  run.end(500 * us);
  // In the replay a fault brings only its own page.
  const MachineCounts counts = run.with_region(page_size).under("migrate-always").counts;
  CHECK(counts.migrated_pages == 4 + 4 + 4);
}

TEST_CASE("a processor that loses a page faults only after the move has begun") {
  Run run(page_size);
  run.touch(host, 0, 10 * us, 0);
  // Each processor accesses the page again as soon as the other has begun to take it.
  for (std::uint64_t turn = 0; turn < 20; ++turn) {
    const int from = turn % 2 == 0 ? host : device, to = turn % 2 == 0 ? device : host;
    const std::uint64_t time = (100 + turn * 30) * us;
    run.touch(to, 0, time, 40 * us).moved(from, to, 1, time + us, 39 * us);
  }
  CHECK(run.under("migrate-always").counts.migrations == 20);
  CHECK(run.under("first-touch").counts.migrations == 0);
}

TEST_CASE(
    "a thread that writes a page while a copy is made for another thread has not written it yet") {
  Run run(page_size);
  run.advise(AdviceDetail::set_read_mostly, 0, 1).touch(host, 0, 10 * us, 0);
  const auto touch = [&](std::uint32_t thread, EventAccess access, std::uint64_t time) {
    run.add({.time_ns = start + time,
             .address = base,
             .bytes = page_size,
             .thread = thread,
             .kind = EventKind::fault,
             .access = access,
             .destination = device});
  };
  // A copy takes 8 us.
  touch(201, EventAccess::read, 100 * us);
  touch(202, EventAccess::write, 104 * us);
  run.touch(host, 0, 200 * us, 0, /*write=*/false);
  CHECK(run.under("migrate-always").counts.duplicated_pages == 2);
}

TEST_CASE("a trace with impossible moves is replayed without failure") {
  Run run(4 * block_size);
  run.touch(host, 0, 10 * us, 0);
  std::uint64_t time = 0;
  for (const std::uint64_t bytes : {513 * page_size, block_size << 16, ~std::uint64_t{0}}) {
    time += 100 * us;
    run.touch(device, 500, time, 20 * us).moved(host, device, 1, time, ~std::uint64_t{0});
    run.touch(host, 500, time + 50 * us, 5 * us);
    run.moved(device, host, bytes / page_size, time + 50 * us, us);
  }
  run.add({.time_ns = start + time,
           .duration_ns = 0 - (start + time),
           .address = base,
           .kind = EventKind::throttle_end});
  for (const EventKind kind : {EventKind::populate, EventKind::migration, EventKind::duplicate})
    run.add({.time_ns = start + time,
             .address = base + 500 * page_size,
             .bytes = page_size,
             .kind = kind,
             .cause = EventCause::fault});
  run.touch(device, 500, ~std::uint64_t{0} - start, us);
  for (const char* const policy : {"migrate-always", "uvm", "adaptive"})
    CHECK(run.under(policy).counts.faults >= 2);
}

TEST_CASE("a sweep over more than a device holds evicts, and over less does not") {
  const auto sweep = [](std::uint64_t capacity) {
    Run run(4 * block_size, capacity, block_size);
    for (std::uint64_t i = 0; i < 12; ++i)
      run.touch(device, i % 4 * pages_per_block, (1 + i) * 1000 * us);
    return run.under("migrate-always");
  };
  const ReplayResult small = sweep(2 * block_size);
  CHECK(small.counts.evictions >= 4);
  CHECK(small.counts.migrated_pages >= small.counts.evictions * pages_per_block);
  const ReplayResult large = sweep(4 * block_size);
  CHECK(large.counts.evictions == 0);
  CHECK(large.counts.migrations == 0);
  CHECK(large.counts.faults == 4);
  CHECK(large.time_ns < small.time_ns);
}

TEST_CASE("a capacity can be set that the recorded devices did not have") {
  Run run(4 * block_size, 4 * block_size, block_size);
  for (std::uint64_t i = 0; i < 4; ++i) run.touch(device, i * pages_per_block, (1 + i) * 1000 * us);
  const Timeline timeline = run.timeline();
  const MachineSetting setting = setting_of(timeline, 2 * pages_per_block);
  CHECK(setting.capacity_pages[device] == 2 * pages_per_block);
  CHECK(setting.capacity_pages[host] == 0);
  const auto source = find_policy("migrate-always");
  const auto policy =
      std::get<PolicySource>(source)(policy_machine_of(run.trace().machine, setting));
  const CostModel costs = round_costs();
  CHECK(replay({timeline, setting, costs, *policy, whole(run.trace())}).counts.evictions == 2);
}

TEST_CASE("under the recorded policy, full devices evict what they evicted in the recording") {
  for (const std::uint64_t victim : {0u, 1u}) {
    CAPTURE(victim);
    Run run(3 * block_size, 2 * block_size, block_size);
    for (const std::uint64_t block : {0u, 1u})
      run.touch(device, block * pages_per_block, (1 + block) * 1000 * us);
    run.add({.time_ns = start + 2900 * us,
             .duration_ns = us,
             .address = base + victim * block_size,
             .bytes = block_size,
             .kind = EventKind::eviction,
             .cause = EventCause::eviction,
             .source = device,
             .destination = host});
    run.touch(device, 2 * pages_per_block, 3000 * us);
    run.touch(device, (1 - victim) * pages_per_block, 4000 * us);
    const auto under = [&](std::uint64_t capacity_pages) {
      const Timeline timeline = run.timeline();
      const MachineSetting setting = as_recorded(setting_of(timeline, capacity_pages), timeline);
      const auto source = find_policy("migrate-always");
      const auto policy =
          std::get<PolicySource>(source)(policy_machine_of(run.trace().machine, setting));
      const CostModel costs = round_costs();
      return replay({timeline, setting, costs, *policy, whole(run.trace())}).counts;
    };
    // The block that stayed is still there when it is accessed again.
    CHECK(under(0).evictions == 1);
    CHECK(under(0).faults == 3);
    // Devices of another capacity evict as the library would.
    CHECK(under(pages_per_block).evictions == 3);
    CHECK(under(4 * pages_per_block).evictions == 0);
  }
}

TEST_CASE("a throttled thread waits by the simulated clock") {
  const Run run = ping_pong(40, 50 * us);
  const ReplayResult result = run.under("uvm");
  CHECK(result.counts.throttled > 0);
  // A throttling period is half a millisecond. Other waits may have used a part of that.
  CHECK(result.stall_ns > result.counts.throttled * 100 * us);
  CHECK(result.time_ns > run.under("migrate-always").time_ns);
  CHECK(run.under("uvm,thrashing_enable=0").counts.throttled == 0);
}

TEST_CASE("a page that is pinned because of thrashing moves again when the pin ends") {
  Run run = ping_pong(60, 50 * us);
  // Much later than the pin time of 150 ms.
  run.touch(host, 0, 400'000 * us).touch(device, 0, 400'200 * us).touch(host, 0, 400'400 * us);
  const ReplayResult with_pins = run.under("uvm");
  const ReplayResult for_ever = run.under("uvm,thrashing_pin=0");
  CHECK(with_pins.counts.mapped_pages > 0);
  CHECK(with_pins.counts.migrations > for_ever.counts.migrations);
}

TEST_CASE("the same trace gives the same result") {
  const Run run = random_run(7);
  for (const char* policy : {"migrate-always", "first-touch", "remote-always", "uvm"}) {
    const ReplayResult one = run.under(policy), other = run.under(policy);
    INFO(policy);
    CHECK(one.counts == other.counts);
    CHECK(one.stall_ns == other.stall_ns);
    CHECK(one.time_ns == other.time_ns);
    CHECK(one.counts.faults > 0);
  }
}

TEST_CASE("time that a thread spends outside faults does not change") {
  Run run(4 * page_size);
  // 40 us without faults, a fault of 100 us, 30 us, another fault, and 20 us until the end.
  run.touch(host, 0, 40 * us, 100 * us).touch(host, 1, 170 * us, 100 * us).end(290 * us);
  CHECK(run.under("migrate-always").time_ns == 40 * us + 1 * us + 30 * us + 1 * us + 20 * us);
}

TEST_CASE("the round trip of a fault is left out if there is no fault") {
  CostModel costs = round_costs();
  costs.round_trip_host_ns = 4000;
  Run run(page_size);
  run.touch(host, 0, 40 * us).touch(host, 0, 80 * us).end(100 * us);
  // The second access finds the page: the run is shorter by the fault's service and the trap.
  CHECK(run.under("migrate-always", costs).time_ns == 100 * us - us - 4 * us);
}

TEST_CASE("accesses of a device after a launch come after the host's accesses before it") {
  Run run(4 * page_size);
  run.touch(host, 0, 10 * us, 100 * us)
      .launch(EventKind::launch_begin, 115 * us)
      .touch(device, 1, 125 * us, 50 * us)
      .launch(EventKind::launch_end, 180 * us)
      .touch(host, 2, 190 * us, 100 * us)
      .end(290 * us);
  // In us: the host's fault ends at 11, the launch begins 5 later, the device faults 10 later for
  // 1, the launch ends 5 later, and 10 later the host faults for 1.
  CHECK(run.under("migrate-always").time_ns == (11 + 5 + 10 + 1 + 5 + 10 + 1) * us);
}

TEST_CASE("threads that ran concurrently run concurrently in the replay") {
  Run run(4 * page_size);
  run.touch(host, 0, 10 * us, 100 * us).touch(device, 1, 20 * us, 100 * us).end(120 * us);
  CHECK(run.under("migrate-always").time_ns == 21 * us);
}

TEST_CASE("an access that followed another processor's access to the page still follows it") {
  Run run(4 * page_size);
  run.touch(host, 0, 10 * us, 100 * us).touch(device, 0, 150 * us, 100 * us).end(250 * us);
  // 40 us after the host's access; no other processor takes the page in the first 20.
  CHECK(run.under("migrate-always").time_ns == (11 + 40 + 10) * us);
}

TEST_CASE("a processor that has just got a page keeps it for a moment") {
  Run run(4 * page_size);
  run.touch(host, 0, 10 * us, 100 * us).touch(device, 0, 111 * us, 100 * us).end(211 * us);
  const std::uint64_t time = run.under("migrate-always").time_ns;
  // Minimum residencies are counted in ticks of a microsecond.
  CHECK(time >= (11 + 18 + 10) * us);
  CHECK(time <= (11 + 22 + 10) * us);
}

TEST_CASE("read-mostly pages are copied, and a write ends the copies") {
  Run run(page_size);
  run.touch(host, 0, 10 * us)
      .advise(AdviceDetail::set_read_mostly, 20 * us, 1)
      .touch(device, 0, 100 * us, us, false)
      .touch(device, 0, 200 * us, us, false)
      .touch(host, 0, 300 * us, us, false)
      .touch(host, 0, 400 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.duplicated_pages == 1);
  CHECK(counts.migrations == 0);
  CHECK(counts.faults == 3);
}

TEST_CASE("a coherent device accesses pages in the host's view without a fault, in any pool") {
  Run run = ping_pong(11, 100 * us);
  const MachineCounts counts = run.coherently().under("migrate-always").counts;
  CHECK(counts.faults == 1);
  CHECK(counts.samples == 0);
  CHECK(counts.migrations == 0);
  CHECK(counts.mapped_pages == 0);
}

TEST_CASE("a coherent device's first touch creates the whole block, also for the host") {
  Run run(block_size);
  run.coherently().touch(device, 0, 10 * us).touch(host, 300, 200 * us);
  CHECK(run.under("migrate-always").counts.faults == 1);
}

TEST_CASE("a block moves to a coherent device when samples show that the device uses it most") {
  Run run(8 * page_size);
  run.coherently();
  for (std::uint64_t page = 0; page < 8; ++page) run.touch(host, page, (1 + page) * 10 * us);
  const auto sample = [&](int processor, std::uint64_t time) { run.sample(processor, 3, time); };
  for (unsigned i = 0; i < SampledUse::lead_needed - 1; ++i) sample(device, (2 + i) * 100 * us);
  MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.migrations == 0);
  CHECK(counts.samples == SampledUse::lead_needed - 1);
  CHECK(counts.faults == 8 + SampledUse::lead_needed - 1);

  SECTION("the device leads") {
    sample(device, 1000 * us);
    run.touch(host, 5, 1100 * us);
    counts = run.under("migrate-always").counts;
    CHECK(counts.migrations == 1);
    CHECK(counts.migrated_pages == 8);
    CHECK(counts.samples == SampledUse::lead_needed);
    CHECK(counts.faults == 8 + SampledUse::lead_needed);
    CHECK(run.under("first-touch").counts.migrations == 0);
  }
  SECTION("the host uses it, too") {
    sample(host, 1000 * us);
    sample(device, 1100 * us);
    CHECK(run.under("migrate-always").counts.migrations == 0);
  }
  SECTION("the memory was freed and allocated again") {
    run.add({.time_ns = start + 1000 * us, .address = base, .kind = EventKind::free})
        .add({.time_ns = start + 1100 * us,
              .address = base,
              .bytes = 8 * page_size,
              .kind = EventKind::allocation})
        .touch(host, 3, 1200 * us);
    sample(device, 1300 * us);
    CHECK(run.under("migrate-always").counts.migrations == 0);
  }
}

TEST_CASE("a block that is to move to a coherent device still moves as one after a wait") {
  Run run(8 * page_size);
  run.coherently();
  for (std::uint64_t page = 0; page < 7; ++page) run.touch(host, page, (1 + page) * 10 * us);
  for (unsigned i = 0; i < SampledUse::lead_needed - 1; ++i)
    run.sample(device, 3, (2 + i) * 100 * us);
  // The host has just got the page when the sample comes that moves the block.
  run.touch(host, 7, 1000 * us).sample(device, 7, 1002 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.migrations == 1);
  CHECK(counts.migrated_pages == 8);
}

TEST_CASE("read-mostly makes no second copy for a coherent device") {
  Run run(page_size);
  run.coherently()
      .touch(host, 0, 10 * us)
      .advise(AdviceDetail::set_read_mostly, 20 * us, 1)
      .touch(device, 0, 100 * us, us, false);
  for (unsigned i = 0; i < 2 * SampledUse::lead_needed; ++i)
    run.sample(device, 0, (2 + i) * 100 * us);
  CHECK(run.under("migrate-always").counts.duplicated_pages == 0);
  CHECK(run.under("migrate-always").counts.migrations == 0);
  run.advise(AdviceDetail::prefetch, 2000 * us, 1, device);
  CHECK(run.under("migrate-always").counts.duplicated_pages == 0);
  CHECK(run.under("migrate-always").counts.migrations == 1);
}

TEST_CASE("accessed-by has no effect for a coherent device") {
  Run run(page_size);
  run.advise(AdviceDetail::set_accessed_by, 5 * us, 1, device).touch(host, 0, 100 * us);
  CHECK(run.under("migrate-always").counts.mapped_pages == 1);
  CHECK(run.coherently().under("migrate-always").counts.mapped_pages == 0);
}

TEST_CASE("prefetched pages of a coherent device are mapped for the host") {
  Run run(page_size);
  run.coherently()
      .touch(host, 0, 10 * us)
      .advise(AdviceDetail::prefetch, 100 * us, 1, device)
      .touch(host, 0, 200 * us)
      .touch(device, 0, 300 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.faults == 1);
  CHECK(counts.migrations == 1);
}

TEST_CASE("a thread that counts as several processors does one thing after the other") {
  CostModel costs = round_costs();
  costs.populate_host.fixed_ns = 100.0 * us;
  Run run(2 * block_size);
  run.coherently()
      .touch(host, 0, 10 * us)
      .touch(device, pages_per_block, 20 * us)
      .by_thread(100)
      .end(21 * us);
  // The host's view of the device's block changes in 5 us.
  CHECK(run.under("migrate-always", costs).time_ns == (10 + 100 + 9 + 1 + 5) * us);
}

TEST_CASE("a thread that counts as a coherent device depends on the program, not on a launch") {
  Run run(2 * block_size);
  run.coherently()
      .touch(host, 0, 10 * us, 100 * us)
      .advise(AdviceDetail::set_read_mostly, 115 * us, 1)
      .touch(device, pages_per_block, 125 * us, 100 * us)
      .end(225 * us);
  CHECK(run.under("migrate-always").time_ns == (10 + 1 + 5 + 10 + 1 + 5) * us);
}

TEST_CASE("a preferred location keeps its pages, whatever the policy") {
  Run run(page_size);
  run.advise(AdviceDetail::set_preferred_location, 5 * us, 1, host);
  for (unsigned i = 0; i < 6; ++i) run.touch(i % 2 == 0 ? host : device, 0, (1 + i) * 100 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.migrations == 0);
  CHECK(counts.mapped_pages == 1);
}

TEST_CASE("prefetched pages are at the destination") {
  Run run(16 * page_size);
  for (std::uint64_t page = 0; page < 16; ++page) run.touch(host, page, (1 + page) * 10 * us);
  run.advise(AdviceDetail::prefetch, 300 * us, 16, device)
      .launch(EventKind::launch_begin, 400 * us);
  for (std::uint64_t page = 0; page < 16; ++page)
    run.touch(device, page, 500 * us + page * 10 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.faults == 16);
  CHECK(counts.migrated_pages == 16);
}

TEST_CASE("freed memory has no pages") {
  Run run(page_size);
  run.touch(host, 0, 10 * us)
      .add({.time_ns = start + 50 * us,
            .address = base,
            .bytes = page_size,
            .kind = EventKind::free})
      .add({.time_ns = start + 60 * us,
            .address = base,
            .bytes = page_size,
            .kind = EventKind::allocation})
      .launch(EventKind::launch_begin, 70 * us)
      .touch(device, 0, 100 * us);
  const MachineCounts counts = run.under("migrate-always").counts;
  CHECK(counts.faults == 2);
  CHECK(counts.migrations == 0);
}

TEST_CASE("device memory takes space in its pool") {
  Run run(2 * block_size, 2 * block_size, block_size);
  run.add({.time_ns = start + us,
           .address = base + 16 * block_size,
           .bytes = block_size,
           .kind = EventKind::allocation,
           .detail = code_of(AllocationDetail::device),
           .destination = device})
      .touch(device, 0, 1000 * us)
      .touch(device, pages_per_block, 2000 * us);
  CHECK(run.under("migrate-always").counts.evictions == 1);
}

TEST_CASE(
    "an oracle shares a page that processors contend for, and moves one that a single one uses") {
  const Run fight = ping_pong(40, 50 * us);
  const ReplayResult best = fight.under_oracle();
  CHECK(best.counts.migrations <= 1);
  CHECK(best.time_ns <= fight.under("migrate-always").time_ns);
  CHECK(best.time_ns <= fight.under("uvm").time_ns);

  Run handed_over(block_size);
  for (std::uint64_t page = 0; page < 64; ++page)
    handed_over.touch(host, page, (1 + page) * 20 * us);
  for (std::uint64_t page = 0; page < 64; ++page)
    handed_over.touch(device, page, (100 + page) * 20 * us);
  const ReplayResult once = handed_over.under_oracle();
  CHECK(once.counts.faults == 2);
  CHECK(once.counts.migrations + once.counts.mapped_pages > 0);
}

TEST_CASE("an oracle leaves a coherent device's page elsewhere if a few slow reads cost less") {
  CostModel costs = round_costs();
  costs.read_remote_page_ns = 3000;
  const auto migrations_with = [&](unsigned later_samples) {
    Run run(8 * page_size);
    run.coherently();
    for (std::uint64_t page = 0; page < 8; ++page) run.touch(host, page, (1 + page) * 10 * us);
    for (unsigned i = 0; i < SampledUse::lead_needed + later_samples; ++i)
      run.sample(device, 3, (2 + i) * 100 * us);
    return run.under_oracle(costs).counts.migrations;
  };
  // The common page table shows the page already: no remote mapping has to be made.
  CHECK(migrations_with(1) == 0);
  CHECK(migrations_with(10) == 1);
}

TEST_CASE("a trace without events takes its recorded time") {
  Run run(page_size);
  run.end(70 * us);
  const ReplayResult result = run.under("uvm");
  CHECK(result.counts == MachineCounts{});
  CHECK(result.time_ns == 70 * us);

  Trace bare;
  bare.machine.page_bytes = page_size;
  bare.machine.block_bytes = block_size;
  bare.machine.processors = {{}};
  const Timeline timeline = std::get<Timeline>(make_timeline(bare));
  CHECK(timeline.size() == 0);
}

TEST_CASE("a trace that breaks off counts up to that point") {
  Run run = ping_pong(5, 100 * us);
  Trace cut = run.trace();
  cut.complete = false;
  cut.events.pop_back();
  cut.end_ns = cut.events.back().time_ns + cut.events.back().duration_ns;
  const Timeline timeline = std::get<Timeline>(make_timeline(cut));
  CHECK(timeline.touches == 4);
  CHECK(whole(cut).end_ns == cut.end_ns);
}

TEST_CASE("a trace with another page size, or of too much memory, is refused") {
  Run run(page_size);
  Trace other = run.trace();
  other.machine.page_bytes = 16384;
  CHECK(std::get<std::string>(make_timeline(other)).find("size") != std::string::npos);
  Trace large = run.advise(AdviceDetail::prefetch, 10 * us, std::uint64_t{1} << 40, device).trace();
  CHECK(std::get<std::string>(make_timeline(large)).find("blocks") != std::string::npos);
}

TEST_CASE("a part of the recorded time can be selected") {
  Run run(4 * page_size);
  run.touch(host, 0, 40 * us, 100 * us).touch(host, 1, 170 * us, 100 * us).end(290 * us);
  const Timeline timeline = run.timeline();
  const CostModel costs = round_costs();
  const auto source = find_policy("migrate-always");
  const MachineSetting setting = setting_of(timeline);
  const auto policy =
      std::get<PolicySource>(source)(policy_machine_of(run.trace().machine, setting));
  // From 10 us after the first fault to 5 us after the second.
  const Window window{start + 150 * us, start + 275 * us};
  CHECK(replay({timeline, setting, costs, *policy, window}).time_ns == (20 + 1 + 5) * us);
}

}  // namespace wherry::replay::replay_test
