// Traces that the library writes with WHERRY_TRACE=FILE, for programs that end in different ways.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/events.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "base/page.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/files.h"
#include "support/session.h"
#include "trace_reader.h"

namespace wherry::test::trace_test {

using namespace wherry::impl;
using namespace wherry::tool;

namespace {

constexpr std::size_t page_words = page_size / sizeof(std::uint64_t);

Trace trace_in(const std::string& path) {
  const std::string text = contents_of(path);
  auto result = read_trace(std::as_bytes(std::span(text)));
  const auto* error = std::get_if<TraceError>(&result);
  INFO((error == nullptr ? "" : error->message));
  REQUIRE(error == nullptr);
  return std::get<Trace>(std::move(result));
}

// A file name for a trace. The destructor removes the file.
class TraceFile {
 public:
  TraceFile() {
    path_ = (std::filesystem::temp_directory_path() / "wherry-traceXXXXXX").string();
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~TraceFile() { std::filesystem::remove_all(path_); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  std::string name() const { return path_ + "/trace"; }
  bool exists() const { return std::filesystem::exists(name()); }
  // Makes the library of the calling process write to this file.
  void choose() const { ::setenv("WHERRY_TRACE", name().c_str(), 1); }

  Trace read() const { return trace_in(name()); }

 private:
  std::string path_;
};

struct Sums {
  std::map<EventKind, std::uint64_t> events;
  std::map<EventKind, std::uint64_t> bytes;
};
Sums sums_of(const Trace& trace) {
  Sums sums;
  for (const TraceEvent& event : trace.events) {
    ++sums.events[event.kind];
    sums.bytes[event.kind] += event.bytes;
  }
  return sums;
}

void touch_everywhere(const Session& session) {
  const Managed<std::uint64_t> words(200 * page_words);
  for (int round = 0; round < 3; ++round) {
    // Writes only: adding to a word may read it first, and fault as a read.
    for (std::size_t i = 0; i < words.size(); i += page_words) words[i] = 1;
    for (int device = 0; device < session.devices(); ++device) {
      session.launch(device, words.size() / page_words,
                     [words = words.data()](std::size_t i) { words[i * page_words] = 2; });
      WHERRY_TRY(session.wait(device));
    }
  }
}

}  // namespace

TEST_CASE("the trace of a program agrees with its counters", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    const Session session("capacity=64M,workers=2;capacity=4M,workers=1");
    const Managed<std::uint64_t> large(8 * (std::size_t{1} << 20) / sizeof(std::uint64_t));
    WHERRY_TRY(wherryNameRange(large.data(), large.bytes(), "large"));
    session.launch(1, large.bytes() / page_size,
                   [words = large.data()](std::size_t i) { words[i * page_words] = i; });
    WHERRY_TRY(session.wait(1));
    touch_everywhere(session);
    // Background eviction may still be running.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const wherryStats stats = read_stats();
    std::printf("%lu %lu %lu %lu\n",
                stats.faults_missing + stats.faults_minor + stats.faults_write_protect,
                stats.migrated_in, stats.populated, stats.evicted);
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  CHECK(outcome.err.empty());
  std::uint64_t faults = 0, migrated = 0, populated = 0, evicted = 0;
  std::istringstream(outcome.out) >> faults >> migrated >> populated >> evicted;
  const Trace trace = file.read();
  CHECK(trace.complete);
  CHECK(trace.drops == TraceDrops{});
  Sums sums = sums_of(trace);
  CHECK(sums.events[EventKind::fault] == faults);
  CHECK(sums.bytes[EventKind::migration] == migrated * page_size);
  CHECK(sums.bytes[EventKind::populate] == populated * page_size);
  CHECK(sums.bytes[EventKind::eviction] == evicted * page_size);
  CHECK(evicted > 0);
  CHECK(sums.events[EventKind::launch_begin] == 7);
  CHECK(sums.events[EventKind::launch_end] == 7);
  // The trace holds what a replay under another policy needs.
  const TraceMachine& machine = trace.machine;
  CHECK(machine.page_bytes == page_size);
  CHECK(machine.block_bytes == block_size);
  CHECK(machine.region_bytes == pages_per_region * page_size);
  REQUIRE(machine.processors.size() == 3);
  CHECK(machine.processors[0].kind == TraceProcessor::Kind::host);
  CHECK(machine.processors[1].capacity == 64 << 20);
  CHECK(machine.processors[1].workers == 2);
  CHECK(machine.processors[2].capacity == 4 << 20);
  for (const TraceEvent& event : trace.events) {
    CHECK(event.time_ns >= machine.start_ns);
    CHECK(event.time_ns + event.duration_ns <= trace.end_ns);
    if (event.kind != EventKind::fault) continue;
    CHECK(event.address - machine.arena_base < machine.arena_bytes);
    CHECK(event.access == EventAccess::write);
  }
  const auto range = std::ranges::find(trace.names, "large", &TraceName::name);
  REQUIRE(range != trace.names.end());
  CHECK(range->bytes == 8 << 20);
  CHECK(std::ranges::count(trace.names, TraceName::Kind::kernel, &TraceName::kind) == 2);
}

TEST_CASE("a killed program leaves a trace up to that moment", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    const Session session("capacity=64M");
    touch_everywhere(session);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(::getpid(), SIGKILL);
  });
  REQUIRE(outcome.signal == SIGKILL);
  const Trace trace = file.read();
  CHECK_FALSE(trace.complete);
  CHECK(sums_of(trace).events[EventKind::launch_end] == 3);
}

TEST_CASE("kernels that are lost with their device end in the trace", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    const Session session("capacity=64M");
    session.launch(0, 1, [](std::size_t) { *reinterpret_cast<volatile int*>(8) = 1; });
    expect(session.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel should fail");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  const Trace trace = file.read();
  CHECK(trace.complete);
  const auto end = std::ranges::find(trace.events, EventKind::launch_end, &TraceEvent::kind);
  REQUIRE(end != trace.events.end());
  CHECK(end->detail == code_of(LaunchDetail::lost));
}

TEST_CASE("children of the program neither write to its trace nor end it", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    const Session session("capacity=64M");
    const pid_t child = ::fork();
    if (child == 0) std::exit(wherryStopEvents() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child");
    touch_everywhere(session);
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  const Trace trace = file.read();
  CHECK(trace.complete);
  CHECK(sums_of(trace).events[EventKind::launch_end] == 3);
}

TEST_CASE("managed variables are in the trace from its beginning on", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    static WHERRY_MANAGED std::uint64_t variable = 3;
    const Session session("capacity=64M");
    session.run(0, [] { variable += 1; });
    expect(variable == 4, "the variable");
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  const Trace trace = file.read();
  const auto is_variable = [](const TraceEvent& event) {
    return event.kind == EventKind::allocation &&
           event.detail == code_of(AllocationDetail::variable);
  };
  const auto found = std::ranges::find_if(trace.events, is_variable);
  REQUIRE(found != trace.events.end());
  CHECK(std::ranges::any_of(trace.events, [&](const TraceEvent& event) {
    return event.kind == EventKind::migration && event.address == found->address;
  }));
}

TEST_CASE("while a trace is written the program cannot read its events", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    file.choose();
    const Session session("capacity=64M");
    wherryEvent event;
    event.size = sizeof event;
    std::size_t read = 0;
    expect(wherryStartEvents(WHERRY_EVENT_ALL, 0) == CUDA_ERROR_ALREADY_ACQUIRED, "start");
    expect(wherryReadEvents(&event, 1, &read) == CUDA_ERROR_ALREADY_ACQUIRED, "read");
    expect(wherryStopEvents() == CUDA_ERROR_ILLEGAL_STATE, "stop");
    std::uint64_t count = 1;
    expect(wherryCountDroppedEvents(WHERRY_EVENT_FAULT, &count) == CUDA_SUCCESS && count == 0,
           "drops");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a trace that cannot be written costs one log line, and nothing else", "[system]") {
  const auto run_with = [](const std::string& path) {
    return in_fresh_process([&] {
      ::setenv("WHERRY_TRACE", path.c_str(), 1);
      touch_everywhere(Session("capacity=64M"));
      WHERRY_TRY(wherryStartEvents(WHERRY_EVENT_ALL, 0));
    });
  };
  const Outcome nowhere = run_with("/nonexistent/trace");
  CHECK(nowhere.passed());
  CHECK(nowhere.err ==
        "wherry: no trace /nonexistent/trace is written: No such file or directory\n");
  const Outcome device = run_with("/dev/null");
  CHECK(device.passed());
  CHECK(device.err == "wherry: no trace /dev/null is written: it is no regular file\n");
}

TEST_CASE("processes and ranks have traces of their own where the name says so", "[system]") {
  const TraceFile file;
  for (const char* rank : {"0", "1"}) {
    const Outcome outcome = in_fresh_process([&] {
      ::setenv("WHERRY_TRACE", (file.name() + "-%r-%p-100%%").c_str(), 1);
      ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
      touch_everywhere(Session("capacity=64M"));
      std::printf("%d", ::getpid());
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
    const Trace trace = trace_in(file.name() + "-" + rank + "-" + outcome.out + "-100%");
    CHECK(trace.complete);
    CHECK(std::to_string(trace.machine.process) == outcome.out);
  }
}

TEST_CASE("a name with another letter after a percent sign costs one log line", "[system]") {
  const TraceFile file;
  const Outcome outcome = in_fresh_process([&] {
    ::setenv("WHERRY_TRACE", (file.name() + ".%h").c_str(), 1);
    touch_everywhere(Session("capacity=64M"));
    WHERRY_TRY(wherryStartEvents(WHERRY_EVENT_ALL, 0));
  });
  CHECK(outcome.passed());
  CHECK(outcome.err == "wherry: no trace " + file.name() +
                           ".%h is written: '%h' is not %p (process), %r (MPI rank) or %% (a "
                           "percent sign)\n");
}

TEST_CASE("a trace that another process is writing is not replaced", "[system]") {
  const TraceFile file;
  Child first([&] {
    file.choose();
    const Session session("capacity=64M");
    std::printf("%d\n", ::getpid());
    std::fflush(stdout);
    ::pause();
  });
  const std::string process = first.read_line();
  const Outcome second = in_fresh_process([&] {
    file.choose();
    touch_everywhere(Session("capacity=64M"));
  });
  CHECK(second.passed());
  CHECK(second.err == "wherry: no trace " + file.name() +
                          " is written: another process is writing it; with %p (process) or %r "
                          "(MPI rank) in WHERRY_TRACE each process has a file of its own\n");
  ::kill(first.pid(), SIGKILL);
  first.wait();
  CHECK(std::to_string(file.read().machine.process) == process);
}

TEST_CASE("without WHERRY_TRACE, or where the library does not start, there is no file",
          "[system]") {
  const TraceFile file;
  const Outcome without = in_fresh_process([] { touch_everywhere(Session("capacity=64M")); });
  CHECK(without.passed());
  const Outcome failed = in_fresh_process([&] {
    file.choose();
    ::setenv("WHERRY_DEVICES", "nonsense", 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "cuInit");
  });
  CHECK(failed.passed());
  CHECK_FALSE(file.exists());
}

}  // namespace wherry::test::trace_test
