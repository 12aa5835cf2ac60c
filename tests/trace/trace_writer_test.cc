// Recorded events reach the file, also if the program ends or the disk is full.
#include "trace/trace_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "os/files/new_file.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/files.h"
#include "support/sample_trace.h"
#include "support/session.h"
#include "trace/recorder.h"
#include "trace_reader.h"

namespace wherry::test::trace_writer_test {

using namespace wherry::impl;
using namespace wherry::tool;

namespace {

// A new empty folder.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "wherry-traceXXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const char* name) const { return path_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

std::variant<Trace, TraceError> read_file(const std::string& path) {
  const std::string text = contents_of(path);
  return read_trace(std::as_bytes(std::span(text)));
}
Trace trace_in(const std::string& path) {
  auto result = read_file(path);
  const auto* error = std::get_if<TraceError>(&result);
  INFO((error == nullptr ? "" : error->message));
  REQUIRE(error == nullptr);
  return std::get<Trace>(std::move(result));
}

// The capacity of the rings in forked children, which do not have the rings of this process.
constexpr std::size_t in_children = 65536;

// Starts recording to the file. Called where Catch2's assertions cannot be used, too.
std::unique_ptr<TraceWriter> start(const std::string& path, std::size_t capacity = 1024) {
  expect(start_recording(EventReader::trace, all_event_kinds, capacity),
         "recording cannot be started");
  Fd file;
  expect(create_in_place_of(path, file) == 0, "no file");
  return std::make_unique<TraceWriter>(std::move(file), path, sample_machine(), sample_settings(),
                                       [](std::uintptr_t) { return "kernel"; });
}

// Records an event, and waits until it is in the file.
void write_first_event(const std::string& path) {
  record_event(sample_events()[0]);
  while (std::get<Trace>(read_file(path)).events.empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void wait_for_end_of_recording() {
  while (is_recorded(EventKind::fault)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("events, names and drops are written to the file") {
  const Folder folder;
  const std::string path = folder.file("trace");
  {
    const auto writer = start(path);
    for (const TraceEvent& event : sample_events()) record_event(event);
    for (const TraceName& name : sample_names()) writer->name(name);
    record_event({.time_ns = 9'000'000, .address = 0x77, .kind = EventKind::launch_begin});
    record_event({.time_ns = 9'000'001, .address = 0x77, .kind = EventKind::launch_begin});
  }
  const Trace trace = trace_in(path);
  CHECK(trace.complete);
  CHECK(trace.machine == sample_machine());
  CHECK(trace.settings == sample_settings());
  REQUIRE(trace.events.size() == sample_events().size() + 2);
  CHECK(std::vector(trace.events.begin(), trace.events.end() - 2) == sample_events());
  // The kernel is named once.
  REQUIRE(trace.names.size() == sample_names().size() + 1);
  CHECK(trace.names.back().name == "kernel");
  CHECK(trace.drops == TraceDrops{});
  CHECK(folder.entries() == 1);
}

TEST_CASE("events that do not fit are counted in the file") {
  const Folder folder;
  const std::string path = folder.file("trace");
  constexpr std::uint64_t count = 20'000;
  {
    const auto writer = start(path, 16);
    for (std::uint64_t i = 0; i < count; ++i) record_event({.time_ns = i + 1});
  }
  const Trace trace = trace_in(path);
  CHECK(trace.drops[0] > 0);
  CHECK(trace.events.size() + trace.drops[0] == count);
}

TEST_CASE("a killed program leaves the events that were written before") {
  const Folder folder;
  const std::string path = folder.file("trace");
  const Outcome outcome = in_fresh_process([&] {
    const auto writer = start(path, in_children);
    write_first_event(path);
    ::kill(::getpid(), SIGKILL);
  });
  CHECK(outcome.signal == SIGKILL);
  const Trace trace = trace_in(path);
  CHECK_FALSE(trace.complete);
  CHECK(trace.events.size() == 1);
}

TEST_CASE("a file that cannot grow any more ends the recording, not the program") {
  const Folder folder;
  const std::string path = folder.file("trace");
  const Outcome outcome = in_fresh_process([&] {
    const rlimit limit{8192, 8192};
    expect(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    const auto writer = start(path, in_children);
    for (std::uint64_t i = 0; i < 40'000; ++i) record_event({.time_ns = i * 12345, .address = i});
    wait_for_end_of_recording();
    writer->name({});
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err == "wherry: the trace " + path +
                           " ends early: File too large; later events are not recorded\n");
  CHECK_FALSE(trace_in(path).complete);
}

TEST_CASE(
    "a file that can just take the last whole chunk does not look like one of a killed program") {
  const Folder folder;
  const std::string path = folder.file("trace");
  const Outcome outcome = in_fresh_process([&] {
    const auto writer = start(path, in_children);
    write_first_event(path);
    const auto bytes = std::filesystem::file_size(path);
    const rlimit limit{bytes, bytes};
    expect(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    record_event(sample_events()[1]);
    wait_for_end_of_recording();
    // The limit forbids a longer file, so the last chunk is one byte short.
    expect(std::filesystem::file_size(path) == bytes - 1, "the file ends with a whole chunk");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  const Trace trace = trace_in(path);
  CHECK_FALSE(trace.complete);
  CHECK(trace.machine == sample_machine());
}

TEST_CASE("a file is replaced once the new one exists, and only a regular file is replaced") {
  const Folder folder;
  const std::string path = folder.file("trace");
  const std::string link = folder.file("link");
  std::ofstream(path) << "old";
  REQUIRE(::symlink("trace", link.c_str()) == 0);
  {
    Fd file;
    REQUIRE(create_in_place_of(link, file) == 0);
    std::uint64_t appended = 0;
    REQUIRE(append_all(file, std::as_bytes(std::span("new", 3)), appended) == 0);
    CHECK(appended == 3);
  }
  CHECK(std::filesystem::is_symlink(link));
  CHECK(std::filesystem::file_size(path) == 3);
  Fd none;
  CHECK(create_in_place_of(folder.file("."), none) == EISDIR);
  CHECK(create_in_place_of("/dev/null", none) == EINVAL);
  CHECK(create_in_place_of(folder.file("nowhere/trace"), none) == ENOENT);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK_FALSE(none);
  CHECK(folder.entries() == 2);
}

TEST_CASE("a file that its writer still has open is not replaced") {
  const Folder folder;
  const std::string path = folder.file("trace");
  {
    Fd first, second;
    REQUIRE(create_in_place_of(path, first) == 0);
    CHECK(create_in_place_of(path, second) == EBUSY);
    CHECK_FALSE(second);
    std::uint64_t appended = 0;
    REQUIRE(append_all(first, std::as_bytes(std::span("first", 5)), appended) == 0);
  }
  CHECK(std::filesystem::file_size(path) == 5);
  CHECK(folder.entries() == 1);
  Fd later;
  CHECK(create_in_place_of(path, later) == 0);
  CHECK(std::filesystem::file_size(path) == 0);
}

TEST_CASE("of processes that create one file at the same time, one succeeds") {
  for (const bool replaced : {false, true}) {
    const Folder folder;
    const std::string path = folder.file("trace");
    if (replaced) std::ofstream(path) << "old";
    int gate[2];
    REQUIRE(::pipe2(gate, O_CLOEXEC) == 0);
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < 8; ++i)
      children.push_back(std::make_unique<Child>([&] {
        ::close(gate[1]);
        char byte = 0;
        expect(::read(gate[0], &byte, 1) == 0, "the gate");  // returns when it is closed
        Fd file;
        std::printf("%d\n", create_in_place_of(path, file));
        std::fflush(stdout);
        ::pause();  // the file stays open until the test has all answers
      }));
    ::close(gate[0]);
    ::close(gate[1]);
    std::map<int, int> answers;
    for (const auto& child : children) ++answers[std::stoi(child->read_line())];
    CHECK(answers == std::map<int, int>{{0, 1}, {EBUSY, 7}});
    CHECK(folder.entries() == 1);
    for (const auto& child : children) child->kill_group();
  }
}

}  // namespace wherry::test::trace_writer_test
