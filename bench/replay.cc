// How fast are recorded events replayed? A trace is generated in memory, in which host and device
// access the same blocks one after the other until there are enough events. Then one thread reads
// the trace, and replays it under each policy.
#include "replay/replay.h"

#include <random>
#include <string>

#include "machine/policy_source.h"
#include "policy/policies.h"
#include "replay/policy_machine.h"
#include "report.h"
#include "trace_reader.h"

namespace wherry::bench {
namespace {

constexpr std::size_t events_wanted = 2'000'000;
constexpr std::uint64_t blocks = 256;
constexpr std::uint64_t base = std::uint64_t{1} << 40;
constexpr int runs = 5;

// The order in which host and device access regions of 64 KiB.
enum class Order {
  sweep,
  random,
};

impl::TraceMachine machine() {
  impl::TraceMachine machine;
  machine.start_ns = 1;
  machine.page_bytes = impl::page_size;
  machine.block_bytes = impl::block_size;
  machine.region_bytes = 65536;
  machine.arena_base = base;
  machine.arena_bytes = blocks * impl::block_size;
  machine.processors = {{impl::TraceProcessor::Kind::host, true, 0, 0, {0}},
                        {impl::TraceProcessor::Kind::isolated, true, 0, 1, {0}}};
  return machine;
}

// The events of the policy migrate-always: faults, and the pages that moved with each.
std::vector<impl::TraceEvent> events(Order order) {
  using impl::TraceEvent;
  constexpr std::uint64_t regions = blocks * impl::pages_per_block / impl::pages_per_region;
  constexpr std::uint64_t fault_ns = 12'000;
  std::vector<TraceEvent> events{{.time_ns = 1,
                                  .address = base,
                                  .bytes = blocks * impl::block_size,
                                  .kind = impl::EventKind::allocation}};
  std::mt19937_64 random(1);
  std::uint64_t time = 1000;
  for (std::uint64_t i = 0; events.size() < events_wanted; ++i, time += fault_ns) {
    const auto faulting_processor = static_cast<std::int8_t>(i / regions % 2);
    const std::uint64_t region = order == Order::sweep ? i % regions : random() % regions;
    const std::uint64_t address = base + region * 65536;
    const bool is_first = i < regions;
    events.push_back({.time_ns = time,
                      .duration_ns = fault_ns - 2000,
                      .address = address,
                      .bytes = 65536,
                      .thread = static_cast<std::uint32_t>(100 + faulting_processor),
                      .kind = impl::EventKind::fault,
                      .access = impl::EventAccess::write,
                      .destination = faulting_processor});
    events.push_back({.time_ns = time + 1000,
                      .duration_ns = is_first ? 0 : fault_ns - 4000,
                      .address = address,
                      .bytes = 65536,
                      .kind = is_first ? impl::EventKind::populate : impl::EventKind::migration,
                      .cause = impl::EventCause::fault,
                      .source = is_first ? TraceEvent::no_processor
                                         : static_cast<std::int8_t>(1 - faulting_processor),
                      .destination = faulting_processor});
  }
  return events;
}

impl::TraceBytes file_of(const std::vector<impl::TraceEvent>& events) {
  impl::TraceBytes file;
  impl::append_trace_header(file);
  impl::append_machine(file, machine());
  for (std::size_t at = 0; at < events.size(); at += impl::chunk_events_max)
    impl::append_events(
        file, std::span(events).subspan(at, std::min(impl::chunk_events_max, events.size() - at)));
  impl::append_end(file, events.back().time_ns + events.back().duration_ns);
  return file;
}

replay::CostModel costs() {
  replay::CostModel costs;
  costs.populate_host = costs.populate_device = {4000, 500};
  costs.migrate_to_host = costs.migrate_to_device = {8000, 1000};
  costs.remote_map = {30'000, 100};
  costs.minor_ns = 3000;
  costs.round_trip_host_ns = costs.round_trip_device_ns = 1500;
  return costs;
}

// Millions of events per second of CPU time: the median of several runs.
template <typename Work>
Measurement rate(const std::string& what, std::size_t count, std::optional<double> goal,
                 const Work& work) {
  std::vector<double> rates;
  for (int run = 0; run < runs; ++run) {
    const double begin = cpu_ns();
    work();
    rates.push_back(static_cast<double>(count) / (cpu_ns() - begin) * 1e3);
  }
  return {what, median(rates), "M events/s", {}, goal};
}

Measurements measure(Order order) {
  const std::string name = order == Order::sweep ? "sweeps" : "random";
  const impl::TraceBytes file = file_of(events(order));
  const tool::Trace trace = std::get<tool::Trace>(tool::read_trace(file));
  const std::size_t count = trace.events.size();
  Measurements results{rate(name + ", reading", count, {}, [&] { (void)tool::read_trace(file); })};
  const replay::CostModel model = costs();
  constexpr double goal = 3;
  for (const impl::PolicyDescription& policy : impl::built_in_policies()) {
    const auto source = std::get<impl::PolicySource>(impl::find_policy(policy.name));
    results.push_back(rate(name + ", " + policy.name, count, goal, [&] {
      const auto timeline = std::get<replay::Timeline>(replay::make_timeline(trace));
      const auto setting = replay::setting_of(timeline);
      const auto its = source(replay::policy_machine_of(trace.machine, setting));
      (void)replay::replay({timeline, setting, model, *its, replay::whole(trace)});
    }));
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure(Order::sweep);
  for (Measurement& next : measure(Order::random)) all.push_back(std::move(next));
  return print_report("replay: a trace of host and device, 64 KiB a fault, 512 MiB", all, json);
}
