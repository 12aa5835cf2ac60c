#include "replay_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "complain.h"
#include "cost_file.h"
#include "machine/policy_source.h"
#include "policies.h"
#include "policy/policies.h"
#include "progress.h"
#include "replay/cost_scale.h"
#include "replay/policy_machine.h"
#include "replay/replay.h"
#include "replay_warnings.h"
#include "settings_json.h"
#include "trace_file.h"
#include "trace_head.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;
using replay::ReplayResult;

struct ReplayRow {
  std::string name;
  ReplayResult result;
  bool knows_throttles = true;
};

// The policy under which the trace was recorded; "recorded" for traces of earlier versions, which
// do not name it.
std::string recorded_name(const Trace& trace) {
  if (!trace.settings) return "recorded";
  const impl::TraceSettings& settings = *trace.settings;
  if (settings.policy.empty()) return "imported";
  if (settings.policy == settings.policy_in_force)
    return fmt::format("recorded ({})", settings.policy);
  return fmt::format("recorded ({}: {})", settings.policy, settings.policy_in_force);
}

// The counts of the recorded run itself.
ReplayRow recorded_row(const Trace& trace) {
  using impl::EventKind;
  ReplayRow row{recorded_name(trace), {}, false};
  replay::MachineCounts& counts = row.result.counts;
  // A move is recorded in several events with the same time: the faulting page, and the pages that
  // moved along.
  impl::TraceEvent last;
  for (const impl::TraceEvent& event : trace.events) {
    const std::uint64_t pages = event.bytes / impl::page_size;
    switch (event.kind) {
      case EventKind::fault:
        ++counts.faults;
        if (event.cause == impl::EventCause::sample) ++counts.samples;
        row.result.stall_ns += event.duration_ns;
        break;
      case EventKind::migration:
        if (event.time_ns != last.time_ns || event.source != last.source ||
            event.destination != last.destination)
          ++counts.migrations;
        last = event;
        counts.migrated_pages += pages;
        break;
      case EventKind::remote_map:
        counts.mapped_pages += pages;
        break;
      case EventKind::duplicate:
        counts.duplicated_pages += pages;
        break;
      case EventKind::eviction:
        ++counts.evictions;
        break;
      case EventKind::throttle_begin:
        ++counts.throttled;
        row.knows_throttles = true;
        break;
      default:
        break;
    }
  }
  const replay::Window window = replay::whole(trace);
  row.result.time_ns = window.end_ns - window.begin_ns;
  return row;
}

double ratio(const ReplayRow& row, const ReplayRow& recorded) {
  return static_cast<double>(row.result.time_ns) /
         static_cast<double>(std::max<std::uint64_t>(recorded.result.time_ns, 1));
}

std::uint64_t dropped_events(const Trace& trace) {
  std::uint64_t sum = 0;
  for (const std::uint64_t drops : trace.drops) sum += drops;
  return sum;
}

Json to_json(const ReplayRow& row, const ReplayRow& recorded) {
  const replay::MachineCounts& counts = row.result.counts;
  return {{"faults", counts.faults},
          {"samples", counts.samples},
          {"migrations", counts.migrations},
          {"migrated_pages", counts.migrated_pages},
          {"migrated_bytes", counts.migrated_pages * impl::page_size},
          {"remotely_mapped_pages", counts.mapped_pages},
          {"duplicated_pages", counts.duplicated_pages},
          {"evictions", counts.evictions},
          {"throttled", row.knows_throttles ? Json(counts.throttled) : Json()},
          {"stall_ns", row.result.stall_ns},
          {"time_ns", row.result.time_ns},
          {"of_recorded", ratio(row, recorded)}};
}

std::string as_json(const Trace& trace, const replay::CostModel& costs, double scale,
                    const ReplayRow& recorded, const std::vector<ReplayRow>& rows) {
  Json policies = Json::object();
  for (const ReplayRow& row : rows) policies[row.name] = to_json(row, recorded);
  Json policy, policy_in_force;
  if (trace.settings) {
    policy = trace.settings->policy;
    policy_in_force = trace.settings->policy_in_force;
  }
  return Json{{"program", trace.machine.program},
              {"recorded_policy", policy},
              {"recorded_policy_in_force", policy_in_force},
              {"recorded_settings", settings_json(trace)},
              {"complete", trace.complete},
              {"dropped_events", dropped_events(trace)},
              {"costs_of", costs.machine},
              {"cost_scale", scale},
              {"recorded", to_json(recorded, recorded)},
              {"policies", policies}}
             .dump(2) +
         "\n";
}

std::string as_text(const Trace& trace, double scale, const ReplayRow& recorded,
                    const std::vector<ReplayRow>& rows) {
  std::size_t width = recorded.name.size();
  for (const ReplayRow& row : rows) width = std::max(width, row.name.size());
  std::string text = trace_head(trace, trace.events.size());
  text += fmt::format("\n{:<{}}{:>10}{:>12}{:>10}{:>10}{:>10}{:>9}{:>9}{:>10}{:>11}{:>11}{:>9}\n",
                      "", width, "faults", "migrations", "pages", "MiB", "mapped", "copies",
                      "evicted", "throttled", "stalls", "time", "of rec.");
  const auto add = [&](const ReplayRow& row) {
    const replay::MachineCounts& counts = row.result.counts;
    text += fmt::format(
        "{:<{}}{:>10}{:>12}{:>10}{:>10.1f}{:>10}{:>9}{:>9}{:>10}{:>9.1f}ms{:>9.1f}ms{:>9.2f}\n",
        row.name, width, counts.faults, counts.migrations, counts.migrated_pages,
        static_cast<double>(counts.migrated_pages * impl::page_size) / (1 << 20),
        counts.mapped_pages, counts.duplicated_pages, counts.evictions,
        row.knows_throttles ? std::to_string(counts.throttled) : "-",
        static_cast<double>(row.result.stall_ns) / 1e6,
        static_cast<double>(row.result.time_ns) / 1e6, ratio(row, recorded));
  };
  add(recorded);
  for (const ReplayRow& row : rows) add(row);
  text += fmt::format("\nCosts are {:.2f} times those of the file, as recorded migrations were.\n",
                      scale);
  if (const std::uint64_t samples = recorded.result.counts.samples)
    text += fmt::format(
        "\n{} recorded faults are samples of accesses to mapped pages; other such accesses are "
        "unknown.\n",
        samples);
  if (!trace.complete) text += "\nThese are the counts up to where the trace breaks off.\n";
  if (const std::uint64_t dropped = dropped_events(trace))
    text += fmt::format("\n{} events were dropped when this was recorded: counts are too low.\n",
                        dropped);
  return text;
}

std::vector<std::string> policies_of(const ReplayOptions& options) {
  std::vector<std::string> names;
  for (const std::string& list : options.policies)
    for (std::string& name : policies_in(list)) names.push_back(std::move(name));
  if (names.empty())
    for (const impl::PolicyDescription& policy : impl::built_in_policies())
      names.emplace_back(policy.name);
  return names;
}

}  // namespace

CLI::App* add_replay(CLI::App& app, ReplayOptions& options) {
  CLI::App* replay = app.add_subcommand(
      "replay",
      "Predict what a recorded program would do under other policies (see: wherry calibrate)");
  replay->add_option("file", options.file, "The trace, as wherry record writes it")
      ->type_name("FILE")
      ->required();
  replay
      ->add_option("--policy", options.policies,
                   "Which policies, in the form of WHERRY_POLICY; all built-in ones by default")
      ->type_name("NAME[,PARAMETER=NUMBER...][,NAME...]")
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](std::string& list) {
            for (const std::string& policy : policies_in(list))
              if (std::string wrong =
                      policy.empty() ? "a policy has no name" : why_no_policy(policy);
                  !wrong.empty())
                return wrong;
            return std::string();
          },
          ""));
  replay
      ->add_option("--capacity", options.capacity,
                   "Capacity of each device, instead of the recorded one; suffixes K, M, G")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{impl::page_size}, std::uint64_t{1} << 62));
  replay->add_option("--cost", options.cost_file, "The cost file, as wherry calibrate writes it")
      ->type_name("FILE");
  replay->add_flag("--json", options.json, "Print one JSON object");
  return replay;
}

int run_replay(const ReplayOptions& options) {
  // Policies are found before the trace is read, so that a shared object that cannot be loaded is
  // reported first.
  std::vector<impl::PolicySource> sources;
  const std::vector<std::string> names = policies_of(options);
  for (const std::string& name : names) {
    auto source = impl::find_policy(name);
    if (const auto* wrong = std::get_if<std::string>(&source)) return complain(*wrong);
    sources.push_back(std::get<impl::PolicySource>(std::move(source)));
  }
  const auto costs = load_costs(options.cost_file.empty() ? usual_cost_file() : options.cost_file);
  if (const auto* wrong = std::get_if<std::string>(&costs)) return complain(*wrong);
  const auto loaded = load_trace(options.file);
  if (const auto* wrong = std::get_if<std::string>(&loaded)) return complain(*wrong);
  const auto& trace = std::get<Trace>(loaded);
  const auto made = replay::make_timeline(trace);
  if (const auto* wrong = std::get_if<std::string>(&made))
    return complain(fmt::format("{}: {}", options.file, *wrong));
  const auto& timeline = std::get<replay::Timeline>(made);

  const auto setting = replay::setting_of(timeline, options.capacity / impl::page_size);
  const auto machine = replay::policy_machine_of(trace.machine, setting);
  const auto& calibrated = std::get<replay::CostModel>(costs);
  const double scale = replay::cost_scale(timeline, calibrated);
  const replay::CostModel model = replay::scaled(calibrated, scale);
  std::vector<ReplayRow> rows;
  Progress progress;
  for (std::size_t i = 0; i < names.size(); ++i) {
    progress.enter_step(i + 1, names.size());
    progress.show(names[i]);
    const auto policy = sources[i](machine);
    if (!policy)
      return complain(fmt::format("{}: the policy cannot be made with these parameters", names[i]));
    const bool same = trace.settings && trace.settings->policy_in_force ==
                                            impl::name_in_force(names[i], machine.access_costs);
    const auto simulated = same ? replay::as_recorded(setting, timeline) : setting;
    rows.push_back(
        {names[i], replay::replay({timeline, simulated, model, *policy, replay::whole(trace)})});
  }
  const ReplayRow recorded = recorded_row(trace);
  std::vector<ReplayedPolicy> replayed;
  for (const ReplayRow& row : rows)
    replayed.push_back({row.name, row.result.counts,
                        leaves_pages(impl::name_in_force(row.name, machine.access_costs))});
  warn_of_hidden_accesses(trace, recorded.result.counts, replayed);
  return print_out(options.json ? as_json(trace, model, scale, recorded, rows)
                                : as_text(trace, scale, recorded, rows));
}

}  // namespace wherry::tool
