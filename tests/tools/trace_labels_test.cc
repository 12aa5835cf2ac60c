// The names of memory at each time of a trace.
#include "trace_labels.h"

#include "support/catch.h"

namespace wherry::test::trace_labels_test {

using namespace wherry::impl;
using wherry::tool::TraceAbout;
using wherry::tool::TraceLabels;

namespace {

TraceName range(std::uint64_t time, std::uint64_t address, std::uint64_t bytes, const char* name) {
  return {TraceName::Kind::range, time, address, bytes, name};
}
TraceEvent touch(std::uint64_t time, std::uint64_t address) {
  return {.time_ns = time, .address = address};
}

}  // namespace

TEST_CASE("memory has its name from the time when it was given, to its last byte") {
  TraceAbout trace;
  trace.names = {range(10, 0x1000, 0x100, "a")};
  TraceLabels labels(trace);
  CHECK(labels.of(touch(9, 0x1000)).empty());
  CHECK(labels.of(touch(10, 0x1000)) == "a");
  CHECK(labels.of(touch(11, 0x10ff)) == "a");
  CHECK(labels.of(touch(11, 0x1100)).empty());
  CHECK(labels.of(touch(11, 0xfff)).empty());
}

TEST_CASE("for memory that was named twice the newest name counts, for those bytes") {
  TraceAbout trace;
  // Not sorted by the time when the names were given.
  trace.names = {range(3, 0x1400, 0x100, "part"), range(1, 0x1000, 0x1000, "all"),
                 range(5, 0x1480, 0x1000, "later")};
  TraceLabels labels(trace);
  CHECK(labels.of(touch(1, 0x1400)) == "all");
  CHECK(labels.of(touch(3, 0x13ff)) == "all");
  CHECK(labels.of(touch(3, 0x1400)) == "part");
  CHECK(labels.of(touch(3, 0x1500)) == "all");
  CHECK(labels.of(touch(5, 0x147f)) == "part");
  CHECK(labels.of(touch(5, 0x1480)) == "later");
  CHECK(labels.of(touch(5, 0x2400)) == "later");
  CHECK(labels.of(touch(5, 0x1000)) == "all");
}

TEST_CASE("freed memory has no name any more, and its free event has the last one") {
  TraceAbout trace;
  trace.names = {range(1, 0x1000, 0x100, "a"), range(1, 0x1800, 0x100, "b"),
                 range(1, 0x2000, 0x100, "c"), range(9, 0x1000, 0x100, "d")};
  TraceLabels labels(trace);
  const TraceEvent free{.time_ns = 5, .address = 0x1000, .bytes = 0x1000, .kind = EventKind::free};
  CHECK(labels.of(free) == "a");
  CHECK(labels.of(touch(6, 0x1000)).empty());
  CHECK(labels.of(touch(6, 0x1800)).empty());
  CHECK(labels.of(touch(6, 0x2000)) == "c");
  CHECK(labels.of(touch(9, 0x1000)) == "d");
}

TEST_CASE("launches and marks have names of their own, and memory at the same address its own") {
  TraceAbout trace;
  trace.names = {{TraceName::Kind::kernel, 0, 0x1000, 0, "scale(int) (./program+0x1000)"},
                 {TraceName::Kind::kernel, 0, 0x2000, 0, "(./program+0x2000)"},
                 {TraceName::Kind::mark, 5, 0x4000, 0, "phase 1"},
                 range(0, 0x1000, 1, "memory")};
  TraceLabels labels(trace);
  CHECK(labels.of({.address = 0x1000, .kind = EventKind::launch_begin}) == "scale(int)");
  CHECK(labels.of({.address = 0x2000, .kind = EventKind::launch_end}) == "(./program+0x2000)");
  CHECK(labels.of({.address = 0x3000, .kind = EventKind::launch_begin}).empty());
  CHECK(labels.of({.address = 0x4000, .kind = EventKind::mark}) == "phase 1");
  CHECK(labels.of({.address = 0x5000, .kind = EventKind::mark}).empty());
  CHECK(labels.of(touch(0, 0x1000)) == "memory");
}

TEST_CASE("a range that extends past the last address ends there") {
  TraceAbout trace;
  trace.names = {range(0, UINT64_MAX - 5, 100, "end")};
  TraceLabels labels(trace);
  CHECK(labels.of(touch(0, UINT64_MAX - 1)) == "end");
  CHECK(labels.of(touch(0, 50)).empty());
}

}  // namespace wherry::test::trace_labels_test
