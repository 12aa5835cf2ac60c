// The events that a program reads: exactly one for each thing that it did.
#include <wherry/events.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/catch.h"
#include "support/stage.h"

namespace wherry::test::events_test {

namespace {

Stage& stage() {
  static Stage the_stage("capacity=64M,workers=1;capacity=4M,workers=1");
  return the_stage;
}

std::vector<wherryEvent> read_all_events() {
  constexpr std::size_t most = 100'000;
  std::vector<wherryEvent> events = read_events(most);
  REQUIRE(events.size() < most);
  return events;
}

// The events that `act` causes.
template <typename Act>
std::vector<wherryEvent> events_of(const Act& act, std::uint64_t kinds = WHERRY_EVENT_ALL) {
  stage();
  WHERRY_TRY(wherryStartEvents(kinds, 0));
  act();
  WHERRY_TRY(wherryStopEvents());
  return read_all_events();
}

std::vector<wherryEvent> only(const std::vector<wherryEvent>& events, int kind) {
  std::vector<wherryEvent> found;
  std::ranges::copy_if(events, std::back_inserter(found),
                       [&](const wherryEvent& event) { return event.kind == kind; });
  return found;
}

std::uint64_t bytes_of(const std::vector<wherryEvent>& events) {
  std::uint64_t sum = 0;
  for (const wherryEvent& event : events) sum += event.bytes;
  return sum;
}

}  // namespace

TEST_CASE("a ping-pong shows as a fault and a move each time, back and forth", "[system]") {
  const Words words((stage(), region_words));
  stage().write(host, words.data(), 1);
  constexpr int rounds = 5;
  const auto events = events_of([&] {
    for (int i = 0; i < rounds; ++i) {
      stage().write(device0, words.data() + 3, 2);
      stage().write(host, words.data() + 5, 3);
    }
  });
  const auto moves = only(events, WHERRY_EVENT_MIGRATION);
  // Pages of the stage itself do not move: its answers are not in managed memory.
  REQUIRE(moves.size() == 2 * rounds);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const int from = i % 2 == 0 ? host : device0;
    const int to = i % 2 == 0 ? device0 : host;
    CAPTURE(i);
    CHECK(moves[i].cause == WHERRY_CAUSE_FAULT);
    CHECK(moves[i].source == index_of(from));
    CHECK(moves[i].destination == index_of(to));
    CHECK(moves[i].address == address_of(words.data()));
    CHECK(moves[i].bytes == region_bytes);
    CHECK(moves[i].duration_ns > 0);
    // The fault that caused the move.
    const auto fault = std::ranges::find_if(events, [&](const wherryEvent& event) {
      return event.kind == WHERRY_EVENT_FAULT && event.destination == index_of(to) &&
             event.time_ns <= moves[i].time_ns &&
             event.time_ns + event.duration_ns >= moves[i].time_ns + moves[i].duration_ns;
    });
    REQUIRE(fault != events.end());
    CHECK(fault->access == WHERRY_EVENT_WRITE);
    CHECK(fault->address / page_bytes == address_of(words.data()) / page_bytes);
  }
  CHECK(std::ranges::is_sorted(events, {}, &wherryEvent::time_ns));
  const auto begins = only(events, WHERRY_EVENT_LAUNCH_BEGIN);
  const auto ends = only(events, WHERRY_EVENT_LAUNCH_END);
  REQUIRE(begins.size() == rounds);
  REQUIRE(ends.size() == rounds);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    CHECK(begins[i].launch == ends[i].launch);
    CHECK(begins[i].address == ends[i].address);
    CHECK(begins[i].bytes == 1);
    CHECK(ends[i].detail == WHERRY_LAUNCH_FINISHED);
    CHECK(begins[i].time_ns <= moves[2 * i].time_ns);
    CHECK(moves[2 * i].time_ns <= ends[i].time_ns);
  }
}

TEST_CASE("the numbers of faults and pages in events equal the counters", "[system]") {
  const Words words((stage(), 300 * page_words));
  const wherryStats before = read_stats();
  const auto events = events_of([&] {
    for (const int by : {host, device0, device1, host, device1, device0})
      stage().write_pages(by, words.data(), words.bytes(), 4);
    advise(words, CU_MEM_ADVISE_SET_READ_MOSTLY);
    for (const int by : {host, device1}) (void)stage().read_pages(by, words.data(), words.bytes());
    stage().write_pages(host, words.data(), words.bytes(), 5);
    advise(words, CU_MEM_ADVISE_UNSET_READ_MOSTLY);
    advise(words, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host);
    advise(words, CU_MEM_ADVISE_SET_ACCESSED_BY, device0);
    (void)stage().read_pages(device0, words.data(), words.bytes());
  });
  const wherryStats after = read_stats();
  const auto pages = [&](int kind) { return bytes_of(only(events, kind)) / page_bytes; };
  std::map<int, std::uint64_t> faults;
  for (const wherryEvent& event : only(events, WHERRY_EVENT_FAULT)) ++faults[event.detail];
  CHECK(faults[WHERRY_FAULT_MISSING] == after.faults_missing - before.faults_missing);
  CHECK(faults[WHERRY_FAULT_MINOR] == after.faults_minor - before.faults_minor);
  CHECK(faults[WHERRY_FAULT_WRITE_PROTECT] ==
        after.faults_write_protect - before.faults_write_protect);
  CHECK(pages(WHERRY_EVENT_POPULATE) == after.populated - before.populated);
  CHECK(pages(WHERRY_EVENT_MIGRATION) == after.migrated_in - before.migrated_in);
  CHECK(pages(WHERRY_EVENT_DUPLICATE) == after.duplicated - before.duplicated);
  CHECK(pages(WHERRY_EVENT_REMOTE_MAP) == after.mapped_remotely - before.mapped_remotely);
  CHECK(pages(WHERRY_EVENT_HELD) == after.held - before.held);
  CHECK(pages(WHERRY_EVENT_DUPLICATE) > 0);
  CHECK(pages(WHERRY_EVENT_REMOTE_MAP) > 0);
  std::uint64_t service_ns = 0;
  for (const wherryEvent& event : only(events, WHERRY_EVENT_FAULT)) service_ns += event.duration_ns;
  CHECK(service_ns == after.service_ns - before.service_ns);
  for (const wherryEvent& event : only(events, WHERRY_EVENT_INVALIDATE))
    CHECK((event.cause == WHERRY_CAUSE_FAULT || event.cause == WHERRY_CAUSE_ADVICE));
}

TEST_CASE("evictions name what left, and the moves of an eviction name it as their cause",
          "[system]") {
  const Words words((stage(), 2 * 4 * (std::size_t{1} << 20) / sizeof(std::uint64_t)));
  const wherryStats before = read_stats();
  const auto events =
      events_of([&] { stage().write_pages(device1, words.data(), words.bytes(), 1); });
  const wherryStats after = read_stats();
  const auto evictions = only(events, WHERRY_EVENT_EVICTION);
  CHECK_FALSE(evictions.empty());
  CHECK(bytes_of(evictions) / page_bytes == after.evicted - before.evicted);
  std::uint64_t moved = 0;
  for (const wherryEvent& event : only(events, WHERRY_EVENT_MIGRATION))
    if (event.cause == WHERRY_CAUSE_EVICTION) moved += event.bytes;
  CHECK(moved == bytes_of(evictions));
  for (const wherryEvent& event : evictions) {
    CHECK(event.source == index_of(device1));
    CHECK(event.address % (2 << 20) == 0);
    CHECK(event.duration_ns > 0);
  }
}

TEST_CASE("prefetches, advice, pins and frees are events of their own", "[system]") {
  const CUstream stream = (stage(), stage().session().stream(0));
  CUdeviceptr start = 0;
  const std::size_t bytes = 4 * region_bytes;
  const auto events = events_of([&] {
    Words words(bytes / sizeof(std::uint64_t));
    start = address_of(words.data());
    stage().write_pages(host, words.data(), words.bytes(), 1);
    WHERRY_TRY(cuMemPrefetchAsync(start, bytes, location_of(device0), 0, stream));
    WHERRY_TRY(cuStreamSynchronize(stream));
    WHERRY_TRY(wherryPinPages(start, page_bytes));
    WHERRY_TRY(wherryUnpinPages(start, page_bytes));
  });
  const auto advice = only(events, WHERRY_EVENT_ADVICE);
  REQUIRE(advice.size() == 1);
  CHECK(advice[0].detail == WHERRY_ADVICE_PREFETCH);
  CHECK(advice[0].destination == index_of(device0));
  CHECK(advice[0].address == start);
  CHECK(advice[0].bytes == bytes);
  std::uint64_t prefetched = 0;
  for (const wherryEvent& event : only(events, WHERRY_EVENT_MIGRATION))
    if (event.cause == WHERRY_CAUSE_USER_PREFETCH) prefetched += event.bytes;
  CHECK(prefetched == bytes);
  for (const int kind : {WHERRY_EVENT_PIN, WHERRY_EVENT_UNPIN}) {
    REQUIRE(only(events, kind).size() == 1);
    CHECK(only(events, kind)[0].bytes == page_bytes);
  }
  const auto frees = only(events, WHERRY_EVENT_FREE);
  REQUIRE(frees.size() == 1);
  CHECK(frees[0].address == start);
  CHECK(frees[0].bytes == bytes);
  const auto gone = only(events, WHERRY_EVENT_INVALIDATE);
  CHECK(bytes_of(gone) == bytes);
  for (const wherryEvent& event : gone) CHECK(event.cause == WHERRY_CAUSE_RELEASE);
}

TEST_CASE("only requested events are recorded, and none while recording is off", "[system]") {
  const Words words((stage(), region_words));
  const auto events = events_of([&] { stage().write(device0, words.data(), 1); },
                                WHERRY_EVENT_BIT(WHERRY_EVENT_LAUNCH_END));
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == WHERRY_EVENT_LAUNCH_END);
  stage().write(host, words.data(), 1);
  CHECK(read_all_events().empty());
}

}  // namespace wherry::test::events_test
