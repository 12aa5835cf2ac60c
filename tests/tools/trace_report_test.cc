// A report counts what a trace has, in whatever order the trace has it.
#include "report/trace_report.h"

#include <algorithm>
#include <numeric>

#include "report/event_order.h"
#include "support/catch.h"
#include "support/sample_trace.h"

namespace wherry::test::trace_report_test {

using namespace wherry::impl;
using namespace wherry::report;
using wherry::test::sample_machine;

namespace {

constexpr std::uint64_t page = 4096;

std::variant<std::unique_ptr<const TraceReport>, std::string> report_on(const TraceBytes& file) {
  return make_report([&file] { return wherry::tool::reader_of(file); });
}

std::unique_ptr<const TraceReport> good_report_on(const TraceBytes& file) {
  auto made = report_on(file);
  REQUIRE(std::holds_alternative<std::unique_ptr<const TraceReport>>(made));
  return std::get<std::unique_ptr<const TraceReport>>(std::move(made));
}

std::uint64_t after_start(std::uint64_t ns) {
  return sample_machine().start_ns + ns;
}

// `count` pages that go to the device and back, 20 times, and a launch for each time.
std::vector<TraceEvent> exchange(std::uint64_t count) {
  const std::uint64_t base = sample_machine().arena_base;
  std::vector<TraceEvent> events{{.time_ns = after_start(0),
                                  .address = base,
                                  .bytes = count * page,
                                  .kind = EventKind::populate,
                                  .destination = 0}};
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto from = static_cast<std::int8_t>(i % 2), to = static_cast<std::int8_t>(1 - i % 2);
    const std::uint64_t begin = after_start(1000 * (i + 1));
    events.push_back({.time_ns = begin,
                      .address = base,
                      .kind = to == 1 ? EventKind::launch_begin : EventKind::launch_end,
                      .destination = 1});
    events.back().value = i / 2;
    events.push_back({.time_ns = begin + 1,
                      .duration_ns = 500,
                      .address = base,
                      .bytes = count * page,
                      .kind = EventKind::fault,
                      .access = EventAccess::read,
                      .destination = to});
    events.push_back({.time_ns = begin + 2,
                      .address = base,
                      .bytes = count * page,
                      .kind = EventKind::migration,
                      .cause = EventCause::fault,
                      .source = from,
                      .destination = to});
  }
  return events;
}

TraceBytes file_of(std::span<const TraceEvent> events, bool ended = true) {
  TraceBytes file;
  append_trace_header(file);
  append_machine(file, sample_machine());
  append_events(file, events);
  append_names(file, std::vector<TraceName>{{TraceName::Kind::range, after_start(0),
                                             sample_machine().arena_base, 100 * page, "data"}});
  if (ended) append_end(file, after_start(100'000));
  return file;
}

double sum_of(const Timeline& timeline) {
  return std::accumulate(timeline.begin(), timeline.end(), 0.0);
}

}  // namespace

TEST_CASE("a window puts events in order that are not further from their places than it is long") {
  std::vector<std::uint64_t> times;
  EventOrder order(4, [&](const TraceEvent& event) { times.push_back(event.time_ns); });
  for (const std::uint64_t time : {3u, 1u, 0u, 2u, 7u, 6u, 5u, 4u, 8u, 11u, 10u, 9u, 12u}) {
    const TraceEvent event{.time_ns = time};
    order.add(std::span(&event, 1));
  }
  order.end();
  CHECK(times == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("moves, faults, launches and the places of memory are counted") {
  auto events = exchange(100);
  std::reverse(events.begin(), events.end());
  const auto report = good_report_on(file_of(events));
  CHECK(report->events == 121);
  CHECK(report->about.complete);
  CHECK(sum_of(report->timelines.faults(0)) == 20);
  CHECK(sum_of(report->timelines.faults(1)) == 20);
  CHECK(sum_of(report->timelines.moved(EventCause::fault)) == 40 * 100 * page);
  CHECK(sum_of(report->timelines.busy(1)) == Catch::Approx(20 * 1000));
  REQUIRE(report->timelines.kernels().size() == 1);
  CHECK(report->timelines.kernels().begin()->second.launches == 20);

  const MemoryUse& use = report->memory.at("data");
  CHECK(use.bytes == 100 * page);
  CHECK(use.by[0].reads == 20);
  CHECK(use.by[0].first_touches == 0);
  CHECK(use.by[1].came_pages == 100);
  CHECK(use.moved_pages[0][1] == 2000);
  CHECK(use.fault_ns() == 40 * 500);
  REQUIRE(report->findings.size() == 1);
  CHECK(report->findings[0].proposal == Proposal::read_mostly);

  // The host has all of it from the last move on, at 40 % of the time.
  CHECK(report->residency.share(0, 0, report->bins.count - 1) == 255);
  CHECK(report->residency.share(1, 0, report->bins.count - 1) == 0);
}

TEST_CASE("pages that are held are counted for their memory, and stay where they are") {
  auto events = exchange(100);
  for (const std::int8_t to : {std::int8_t{1}, TraceEvent::no_processor})
    events.push_back({.time_ns = after_start(50'000),
                      .address = sample_machine().arena_base,
                      .bytes = 3 * page,
                      .kind = EventKind::held,
                      .cause = to == 1 ? EventCause::fault : EventCause::release,
                      .source = 0,
                      .destination = to});
  const auto report = good_report_on(file_of(events));
  const MemoryUse& use = report->memory.at("data");
  CHECK(use.holds == 2);
  CHECK(use.held_pages == 6);
  CHECK(use.moved_pages[0][1] == 2000);
  CHECK(report->residency.share(0, 0, report->bins.count - 1) == 255);
  REQUIRE(report->findings.size() == 2);
  CHECK(report->findings[1].proposal == Proposal::pin);
}

TEST_CASE("a trace that breaks off is counted up to there") {
  const auto report = good_report_on(file_of(exchange(1), /*ended=*/false));
  CHECK_FALSE(report->about.complete);
  CHECK(report->events == 121);
  CHECK(report->about.end_ns == after_start(40'000 + 501));
}

TEST_CASE("a trace without events is a report without memory") {
  const auto report = good_report_on(file_of({}));
  CHECK(report->events == 0);
  CHECK(report->rows.size() == 0);
  CHECK(report->memory.empty());
  CHECK(report->findings.empty());
}

TEST_CASE("events with the largest numbers are counted without harm") {
  const auto report = good_report_on(wherry::test::sample_file());
  CHECK(report->events == wherry::test::sample_events().size());
}

TEST_CASE("what is no trace is refused with the reader's reason") {
  const TraceBytes file(20);
  const auto made = report_on(file);
  REQUIRE(std::holds_alternative<std::string>(made));
  CHECK(std::get<std::string>(made).find("not a Wherry trace") != std::string::npos);
}

}  // namespace wherry::test::trace_report_test
