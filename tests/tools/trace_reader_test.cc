// A trace is read as it was written. A file that breaks off is read up to that point. A wrong file
// is reported once and clearly, without reading outside it.
#include "trace_reader.h"

#include <algorithm>
#include <random>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/sample_trace.h"

namespace wherry::test::trace_reader_test {

using namespace wherry::impl;
using namespace wherry::tool;

namespace {

// A copy of exact size, so that sanitizers detect reads beyond it.
std::variant<Trace, TraceError> read_exactly(std::span<const std::byte> file) {
  const TraceBytes copy(file.begin(), file.end());
  return read_trace(copy);
}

std::string error_of(std::span<const std::byte> file) {
  const auto result = read_exactly(file);
  const auto* error = std::get_if<TraceError>(&result);
  return error == nullptr ? "" : error->message;
}

Trace trace_of(std::span<const std::byte> file) {
  auto result = read_exactly(file);
  const auto* error = std::get_if<TraceError>(&result);
  INFO((error == nullptr ? "" : error->message));
  REQUIRE(error == nullptr);
  return std::get<Trace>(std::move(result));
}

// Whether everything in the part is also in the whole trace, chunk by chunk.
bool is_prefix(const Trace& part, const Trace& whole) {
  const auto among = [](const auto& these, const auto& those) {
    return std::ranges::all_of(
        these, [&](const auto& one) { return std::ranges::find(those, one) != those.end(); });
  };
  const auto chunks = [&](std::size_t events) {
    return events == 0 || events == 5 || events == whole.events.size();
  };
  return part.machine == whole.machine && among(part.events, whole.events) &&
         chunks(part.events.size()) && among(part.names, whole.names) &&
         (part.drops == whole.drops || part.drops == TraceDrops{}) && !part.complete;
}

}  // namespace

TEST_CASE("a trace is read as it was written, its events sorted by time") {
  const Trace trace = trace_of(sample_file());
  CHECK(trace.machine == sample_machine());
  CHECK(trace.settings == sample_settings());
  CHECK(trace.events == sample_events());
  CHECK(trace.names == sample_names());
  CHECK(trace.drops == sample_drops());
  CHECK(trace.complete);
  CHECK(trace.end_ns == sample_end_ns);
}

TEST_CASE("a trace of an earlier version, which knew fewer kinds, is read") {
  TraceBytes file;
  append_trace_header(file);
  append_machine(file, sample_machine());
  // Kinds 0 and 1, of which 5 and 7 events were dropped.
  append_chunk(file, TraceChunk::drops, bytes_of({2, 5, 7}));
  append_end(file, sample_end_ns);
  TraceDrops drops{};
  drops[0] = 5;
  drops[1] = 7;
  CHECK(trace_of(file).drops == drops);
}

TEST_CASE("a file that breaks off anywhere is read up to its last complete chunk") {
  const TraceBytes file = sample_file();
  const Trace whole = trace_of(file);
  std::size_t traces = 0;
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    CAPTURE(bytes);
    const auto result = read_exactly(std::span(file).first(bytes));
    if (const auto* error = std::get_if<TraceError>(&result)) {
      // Without a complete first chunk nothing is read.
      CHECK(traces == 0);
      CHECK_FALSE(error->message.empty());
      CHECK(error->message.find('\n') == std::string::npos);
    } else {
      ++traces;
      CHECK(is_prefix(std::get<Trace>(result), whole));
    }
  }
  CHECK(traces > 100);
}

TEST_CASE("an incomplete trace ends with its last event") {
  TraceBytes file;
  append_trace_header(file);
  append_machine(file, sample_machine());
  CHECK(trace_of(file).end_ns == sample_machine().start_ns);
  const auto events = sample_events();
  append_events(file, std::span(events).first(2));
  CHECK(trace_of(file).end_ns == 1'007'200);
}

TEST_CASE("a changed byte anywhere is an error, or makes the file end there") {
  const TraceBytes file = sample_file();
  const Trace whole = trace_of(file);
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      CAPTURE(at, flip);
      TraceBytes changed = file;
      changed[at] ^= std::byte(flip);
      const auto result = read_exactly(changed);
      // A too large length looks as if the file broke off.
      if (const auto* trace = std::get_if<Trace>(&result)) CHECK(is_prefix(*trace, whole));
    }
  }
}

TEST_CASE("a file that is not a trace is reported as such") {
  CHECK(error_of({}) == "the file is not a Wherry trace");
  const char text[] = "time,kind\n1,2\n";
  CHECK(error_of(std::as_bytes(std::span(text))) == "the file is not a Wherry trace");
  TraceBytes file = sample_file();
  file[trace_magic.size()] = std::byte{2};
  CHECK(error_of(file) == "the trace has version 2; this program reads version 1");
  CHECK(error_of(std::span(file).first(10)) == "the file breaks off in its header");
}

TEST_CASE("chunks with impossible contents are an error with their place") {
  const auto with = [](const auto& append) {
    TraceBytes file;
    append_trace_header(file);
    append_machine(file, sample_machine());
    append(file);
    return error_of(file);
  };
  const std::string place = "at byte " + std::to_string([] {
                              TraceBytes file;
                              append_trace_header(file);
                              append_machine(file, sample_machine());
                              return file.size();
                            }());
  const auto is_wrong = [&](const std::string& error) {
    INFO(error);
    return error.rfind(place, 0) == 0;
  };
  SECTION("a processor that does not exist") {
    const TraceEvent event{.kind = EventKind::fault, .destination = 2};
    CHECK(is_wrong(with([&](auto& file) { append_events(file, std::span(&event, 1)); })));
  }
  SECTION("numbers that this version does not know") {
    for (const TraceEvent& event : {TraceEvent{.kind = static_cast<EventKind>(event_kinds)},
                                    TraceEvent{.cause = static_cast<EventCause>(event_causes)},
                                    TraceEvent{.access = static_cast<EventAccess>(event_accesses)}})
      CHECK(is_wrong(with([&](auto& file) { append_events(file, std::span(&event, 1)); })));
  }
  SECTION("more than the payload holds, or less") {
    for (const unsigned kind : {1u, 2u, 3u, 4u, 5u, 6u})
      for (const std::size_t bytes : {0, 1, 9})
        CHECK(is_wrong(with([&](auto& file) {
          append_chunk(file, static_cast<TraceChunk>(kind), TraceBytes(bytes, std::byte{0xff}));
        })));
  }
  SECTION("settings twice") {
    CHECK_FALSE(with([](auto& file) {
                  append_settings(file, sample_settings());
                  append_settings(file, sample_settings());
                }).empty());
  }
  SECTION("anything after the end") {
    CHECK_FALSE(with([](auto& file) {
                  append_end(file, 1);
                  append_end(file, 1);
                }).empty());
  }
  SECTION("a chunk longer than the maximum") {
    CHECK(is_wrong(with([](auto& file) {
      TraceSink sink(file);
      sink.put_word(2);
      sink.put_word(0xffffffff);
      sink.put_word(0);
    })));
  }
}

TEST_CASE("a trace without settings is read: earlier versions wrote none") {
  TraceBytes file;
  append_trace_header(file);
  append_machine(file, sample_machine());
  append_events(file, sample_events());
  const Trace trace = trace_of(file);
  CHECK_FALSE(trace.settings);
  CHECK(trace.events == sample_events());
}

TEST_CASE("a chunk of an unknown kind is skipped") {
  TraceBytes file;
  append_trace_header(file);
  append_machine(file, sample_machine());
  append_chunk(file, static_cast<TraceChunk>(77), TraceBytes(30, std::byte{1}));
  append_events(file, sample_events());
  CHECK(trace_of(file).events.size() == sample_events().size());
}

TEST_CASE("random payloads with good checksums are read or refused") {
  std::mt19937_64 random(seed());
  const auto rounds = static_cast<int>(scaled(20'000));
  for (int round = 0; round < rounds; ++round) {
    TraceBytes file;
    append_trace_header(file);
    append_machine(file, sample_machine());
    TraceBytes payload(random() % 64);
    for (std::byte& byte : payload) byte = std::byte(random() >> (random() % 64));
    append_chunk(file, static_cast<TraceChunk>(1 + random() % 6), payload);
    (void)read_exactly(file);
  }
}

}  // namespace wherry::test::trace_reader_test
