// The functions of wherry/events.h: valid arguments, and the valid order of calls.
#include <unistd.h>
#include <wherry/events.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::events_test {

namespace {

const Session& session() {
  static const Session instance{"capacity=64M"};
  return instance;
}

// Reads at most one event, and returns the call's result.
CUresult read_one(wherryEvent& event, std::size_t& read) {
  event.size = sizeof event;
  return wherryReadEvents(&event, 1, &read);
}

}  // namespace

TEST_CASE("no function works before cuInit", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    std::size_t read = 0;
    std::uint64_t count = 0;
    expect(wherryStartEvents(WHERRY_EVENT_ALL, 0) == CUDA_ERROR_NOT_INITIALIZED, "start");
    expect(wherryStopEvents() == CUDA_ERROR_NOT_INITIALIZED, "stop");
    expect(wherryReadEvents(nullptr, 0, &read) == CUDA_ERROR_NOT_INITIALIZED, "read");
    expect(wherryCountDroppedEvents(WHERRY_EVENT_FAULT, &count) == CUDA_ERROR_NOT_INITIALIZED,
           "drops");
    expect(wherryNameRange(&read, 1, "x") == CUDA_ERROR_NOT_INITIALIZED, "name");
    expect(wherryMark("x") == CUDA_ERROR_NOT_INITIALIZED, "mark");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("events can be read during and after recording, but not before", "[api]") {
  session();
  wherryEvent event;
  std::size_t read = 77;
  CHECK(read_one(event, read) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(wherryStopEvents() == CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_ALLOCATION), 0) == CUDA_SUCCESS);
  CHECK(wherryStartEvents(WHERRY_EVENT_ALL, 0) == CUDA_ERROR_ALREADY_ACQUIRED);
  CHECK(read_one(event, read) == CUDA_SUCCESS);
  CHECK(read == 0);
  const Managed<std::byte> memory(10'000);
  CHECK(wherryStopEvents() == CUDA_SUCCESS);
  CHECK(wherryStopEvents() == CUDA_ERROR_ILLEGAL_STATE);
  REQUIRE(read_one(event, read) == CUDA_SUCCESS);
  REQUIRE(read == 1);
  CHECK(event.size == sizeof event);
  CHECK(event.kind == WHERRY_EVENT_ALLOCATION);
  CHECK(event.detail == WHERRY_ALLOCATION_MANAGED);
  CHECK(event.address == reinterpret_cast<CUdeviceptr>(memory.data()));
  CHECK(event.bytes == 3 * 4096);
  CHECK(event.source == WHERRY_NO_PROCESSOR);
  CHECK(event.destination == WHERRY_NO_PROCESSOR);
}

TEST_CASE("invalid arguments are refused", "[api]") {
  session();
  std::size_t read = 0;
  std::uint64_t count = 0;
  wherryEvent event;
  CHECK(wherryStartEvents(0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryStartEvents(WHERRY_EVENT_BIT(63), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryStartEvents(WHERRY_EVENT_ALL, (std::size_t{1} << 20) + 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryReadEvents(nullptr, 1, &read) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryReadEvents(&event, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  event.size = offsetof(wherryEvent, bytes);
  CHECK(wherryReadEvents(&event, 1, &read) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryCountDroppedEvents(static_cast<wherryEventKind>(WHERRY_EVENT_HELD + 1), &count) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryCountDroppedEvents(WHERRY_EVENT_FAULT, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("callers with another version of the struct get the fields that they know", "[api]") {
  session();
  REQUIRE(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_ALLOCATION), 16) == CUDA_SUCCESS);
  const Managed<std::byte> one(4096), two(4096), three(4096), four(4096);
  struct Old {
    std::size_t size;
    std::uint64_t time_ns, duration_ns;
    CUdeviceptr address;
    std::uint64_t bytes;
  };
  struct New {
    wherryEvent known;
    std::uint64_t unknown;
  };
  std::size_t read = 0;
  std::array<Old, 2> old{};
  old[0].size = sizeof(Old);
  REQUIRE(wherryReadEvents(reinterpret_cast<wherryEvent*>(old.data()), 2, &read) == CUDA_SUCCESS);
  REQUIRE(read == 2);
  CHECK(old[0].address == reinterpret_cast<CUdeviceptr>(one.data()));
  CHECK(old[1].address == reinterpret_cast<CUdeviceptr>(two.data()));
  CHECK(old[1].size == sizeof(Old));
  std::array<New, 2> fresh;
  std::memset(fresh.data(), 0xff, sizeof fresh);
  fresh[0].known.size = sizeof(New);
  REQUIRE(wherryReadEvents(&fresh[0].known, 2, &read) == CUDA_SUCCESS);
  REQUIRE(read == 2);
  CHECK(fresh[1].known.address == reinterpret_cast<CUdeviceptr>(four.data()));
  CHECK(fresh[0].unknown == 0);
  CHECK(fresh[1].unknown == 0);
  REQUIRE(wherryStopEvents() == CUDA_SUCCESS);
}

TEST_CASE("dropped events are counted by kind, since the last start", "[api]") {
  session();
  REQUIRE(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_FREE), 4) == CUDA_SUCCESS);
  for (int i = 0; i < 10; ++i) Managed<std::byte>(4096);
  std::uint64_t count = 0;
  CHECK(wherryCountDroppedEvents(WHERRY_EVENT_FREE, &count) == CUDA_SUCCESS);
  CHECK(count == 6);
  CHECK(wherryCountDroppedEvents(WHERRY_EVENT_ALLOCATION, &count) == CUDA_SUCCESS);
  CHECK(count == 0);
  REQUIRE(wherryStopEvents() == CUDA_SUCCESS);
  REQUIRE(wherryStartEvents(WHERRY_EVENT_ALL, 4) == CUDA_SUCCESS);
  CHECK(wherryCountDroppedEvents(WHERRY_EVENT_FREE, &count) == CUDA_SUCCESS);
  CHECK(count == 0);
  REQUIRE(wherryStopEvents() == CUDA_SUCCESS);
}

TEST_CASE("marks and ranges of the program are events", "[api]") {
  session();
  CHECK(wherryPushRange("begun before", nullptr) == CUDA_SUCCESS);
  REQUIRE(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_MARK), 64) == CUDA_SUCCESS);
  int level = 7;
  CHECK(wherryPushRange("outer", &level) == CUDA_SUCCESS);
  CHECK(level == 1);
  CHECK(wherryPushRange("inner", &level) == CUDA_SUCCESS);
  CHECK(level == 2);
  CHECK(wherryMark(std::string(300, 'm').c_str()) == CUDA_SUCCESS);
  CHECK(wherryPopRange(&level) == CUDA_SUCCESS);
  CHECK(level == 2);
  CHECK(wherryPopRange(nullptr) == CUDA_SUCCESS);
  CHECK(wherryPopRange(&level) == CUDA_SUCCESS);
  CHECK(level == 0);
  CHECK(wherryPopRange(&level) == CUDA_ERROR_ILLEGAL_STATE);
  std::uint64_t range = 0;
  CHECK(wherryStartRange("across threads", &range) == CUDA_SUCCESS);
  std::thread([range] { CHECK(wherryEndRange(range) == CUDA_SUCCESS); }).join();
  CHECK(wherryEndRange(range) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryMark(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryPushRange(nullptr, &level) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryStartRange("x", nullptr) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(wherryStopEvents() == CUDA_SUCCESS);

  std::array<wherryEvent, 8> events;
  events[0].size = sizeof(wherryEvent);
  std::size_t read = 0;
  REQUIRE(wherryReadEvents(events.data(), events.size(), &read) == CUDA_SUCCESS);
  // The events come in the order in which they began.
  REQUIRE(read == 4);
  const auto text = [&](int i) {
    return std::string(reinterpret_cast<const char*>(events.at(i).address));
  };
  const auto end = [&](int i) { return events.at(i).time_ns + events.at(i).duration_ns; };
  CHECK(text(0) == "outer");
  CHECK(text(1) == "inner");
  CHECK(text(2) == std::string(255, 'm'));
  CHECK(text(3) == "across threads");
  CHECK(events[2].duration_ns == 0);
  CHECK(events[2].time_ns >= events[1].time_ns);
  CHECK(end(1) >= events[2].time_ns);
  CHECK(end(0) >= end(1));
  CHECK(events[0].thread == static_cast<std::uint32_t>(::gettid()));
  CHECK(events[3].thread != events[0].thread);
}

TEST_CASE("only ranges inside one allocation can be named", "[api]") {
  session();
  const Managed<std::byte> memory(10'000);
  std::byte* const start = memory.data();
  CHECK(wherryNameRange(start, 10'000, "all") == CUDA_SUCCESS);
  CHECK(wherryNameRange(start + 9'999, 1, "the last byte") == CUDA_SUCCESS);
  CHECK(wherryNameRange(start, 1, std::string(255, 'n').c_str()) == CUDA_SUCCESS);
  CHECK(wherryNameRange(start, 10'001, "more") == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(start + 1, SIZE_MAX, "around") == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(start, 0, "nothing") == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(start, 1, "") == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(start, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(start, 1, std::string(256, 'n').c_str()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryNameRange(nullptr, 1, "null") == CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  CHECK(wherryNameRange(&local, 1, "a local") == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace wherry::test::events_test
