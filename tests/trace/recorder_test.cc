// When events are recorded, for which reader, and what remains afterwards.
#include "trace/recorder.h"

#include <array>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::recorder_test {

using namespace wherry::impl;

namespace {

// All events that the reader can take.
std::vector<TraceEvent> take_all(EventReader reader) {
  std::vector<TraceEvent> events(4096);
  std::size_t taken = 0;
  REQUIRE(take_events(reader, events, taken));
  events.resize(taken);
  return events;
}

}  // namespace

TEST_CASE("nothing is recorded before the start, nor after the stop") {
  std::array<TraceEvent, 1> none;
  std::size_t taken = 0;
  CHECK_FALSE(take_events(EventReader::program, none, taken));
  CHECK_FALSE(is_recorded(EventKind::fault));
  record_event({.address = 1});
  REQUIRE(start_recording(EventReader::program, all_event_kinds, 16));
  CHECK(is_recorded(EventKind::fault));
  CHECK(take_all(EventReader::program).empty());
  record_event({.address = 2});
  REQUIRE(stop_recording(EventReader::program));
  CHECK_FALSE(is_recorded(EventKind::fault));
  // Events recorded before the stop are still there.
  const auto events = take_all(EventReader::program);
  REQUIRE(events.size() == 1);
  CHECK(events[0].address == 2);
}

TEST_CASE("only the requested kinds are recorded") {
  const EventKinds kinds = bit_of(EventKind::advice) | bit_of(EventKind::free);
  REQUIRE(start_recording(EventReader::program, kinds, 16));
  for (unsigned kind = 0; kind < event_kinds; ++kind)
    CHECK(is_recorded(static_cast<EventKind>(kind)) ==
          ((kinds & bit_of(static_cast<EventKind>(kind))) != 0));
  REQUIRE(stop_recording(EventReader::program));
}

TEST_CASE("one reader at a time: the second one gets an error, and takes nothing") {
  REQUIRE(start_recording(EventReader::trace, all_event_kinds, 16));
  CHECK_FALSE(start_recording(EventReader::program, all_event_kinds, 16));
  CHECK_FALSE(stop_recording(EventReader::program));
  record_event({.address = 7});
  std::array<TraceEvent, 4> events;
  std::size_t taken = 0;
  CHECK_FALSE(take_events(EventReader::program, events, taken));
  CHECK(is_recording_for(EventReader::trace));
  REQUIRE(stop_recording(EventReader::trace));
  CHECK_FALSE(is_recording_for(EventReader::trace));
  CHECK(take_all(EventReader::trace).size() == 1);
}

TEST_CASE("a new start discards unread events and resets the drop counts, with any capacity") {
  for (const std::size_t capacity : {4, 8, 4, 5, 4}) {
    REQUIRE(start_recording(EventReader::program, all_event_kinds, capacity));
    CHECK(take_all(EventReader::program).empty());
    CHECK(dropped_events(EventKind::fault) == 0);
    for (int i = 0; i < 10; ++i) record_event({.address = 1});
    CHECK(dropped_events(EventKind::fault) == (capacity == 4 ? 6 : 2));
    REQUIRE(stop_recording(EventReader::program));
  }
}

TEST_CASE("recording is turned on and off while threads record") {
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!stopping)
        if (is_recorded(EventKind::fault)) record_event({.address = 5, .bytes = 6});
    });
  bool as_recorded = true;
  for (int round = 0; round < 200; ++round) {
    REQUIRE(start_recording(EventReader::program, all_event_kinds, round % 2 == 0 ? 16 : 64));
    for (const TraceEvent& event : take_all(EventReader::program))
      as_recorded = as_recorded && event.address == 5 && event.bytes == 6;
    REQUIRE(stop_recording(EventReader::program));
  }
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(as_recorded);
}

}  // namespace wherry::test::recorder_test
