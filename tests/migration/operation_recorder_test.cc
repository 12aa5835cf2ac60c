// Which events and decisions an operation on pages becomes.
#include "migration/operation_recorder.h"

#include <vector>

#include "support/catch.h"
#include "trace/recorder.h"

namespace wherry::test::operation_recorder_test {
namespace {

using namespace wherry::impl;

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);
constexpr BlockIndex block{3};
constexpr PageRun run{16, 8};

// The events of one operation on `run`.
std::vector<TraceEvent> events_of(OperationRecorder& recorder, const OperationRecord& operation) {
  REQUIRE(start_recording(EventReader::program, all_event_kinds, 64));
  recorder.record(operation, block, run);
  REQUIRE(stop_recording(EventReader::program));
  std::vector<TraceEvent> events(64);
  std::size_t taken = 0;
  REQUIRE(take_events(EventReader::program, events, taken));
  events.resize(taken);
  return events;
}

}  // namespace

TEST_CASE("the accessed page moved because of the fault, its neighbours in expectation of one") {
  OperationRecorder recorder(nullptr);
  const auto events =
      events_of(recorder, {EventKind::migration, {MoveCause::fault, 16}, host, device});
  REQUIRE(events.size() == 2);
  CHECK(events[0].cause == EventCause::fault);
  CHECK(events[0].bytes == page_size);
  CHECK(events[1].cause == EventCause::speculative_prefetch);
  CHECK(events[1].bytes == 7 * page_size);
}

TEST_CASE("pages that are held are one event with the operation's cause") {
  OperationRecorder recorder(nullptr);
  const auto events = events_of(recorder, {EventKind::held, {MoveCause::fault, 16}, host, device});
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == EventKind::held);
  CHECK(events[0].cause == EventCause::fault);
  CHECK(events[0].address == span_of(block, run).offset());
  CHECK(events[0].bytes == 8 * page_size);
  CHECK(events[0].source == index_of(host));
  CHECK(events[0].destination == index_of(device));
  CHECK(events[0].duration_ns == 0);
  CHECK(events[0].time_ns != 0);
}

TEST_CASE("pages that are held may be needed by no processor") {
  OperationRecorder recorder(nullptr);
  for (const MoveCause cause : {MoveCause::eviction, MoveCause::release}) {
    const auto events = events_of(recorder, {EventKind::held, cause, device, {}});
    REQUIRE(events.size() == 1);
    CHECK(events[0].cause == cause);
    CHECK(events[0].source == index_of(device));
    CHECK(events[0].destination == TraceEvent::no_processor);
  }
}

TEST_CASE("a move is a decision about its pages; pages that are held stay where they were") {
  OperationRecorder recorder(nullptr);
  recorder.record({EventKind::held, MoveCause::prefetch, host, device}, block, run);
  CHECK(recorder.decisions().latest(block, 16, 8).empty());
  recorder.record({EventKind::migration, MoveCause::prefetch, host, device}, block, run);
  CHECK(recorder.decisions().latest(block, 16, 8).size() == 1);
}

}  // namespace wherry::test::operation_recorder_test
