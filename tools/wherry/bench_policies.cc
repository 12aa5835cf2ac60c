#include "bench_policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "apart.h"
#include "bench_oracle.h"
#include "bench_report.h"
#include "complain.h"
#include "policies.h"
#include "policy/policies.h"
#include "progress.h"
#include "workloads.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

// The time of a workload under a policy, and the library's counters.
struct Result {
  double seconds = std::numeric_limits<double>::infinity();
  std::uint64_t faults = 0;
  std::uint64_t migrated = 0;  // pages
  std::uint64_t mapped = 0;    // pages mapped remotely
  std::uint64_t throttled = 0;
  std::uint64_t thrash_pinned = 0;
};
Result run(const Workload& workload, std::uint64_t seed) {
  const runtime library;
  if (library.device_count() < workload.devices)
    throw std::runtime_error(fmt::format("it needs {} devices", workload.devices));
  Result result;
  result.seconds = workload.run({library, seed}).seconds();
  const wherryStats stats = library.stats();
  result.faults = stats.faults_missing + stats.faults_minor + stats.faults_write_protect;
  result.migrated = stats.migrated_in;
  result.mapped = stats.mapped_remotely;
  result.throttled = stats.throttled;
  result.thrash_pinned = stats.thrash_pinned;
  return result;
}

// The rows of a table with these names; all rows if there are no names. If the table lacks a name,
// prints an error line and returns nullopt.
template <typename PolicyRow>
std::optional<std::vector<const PolicyRow*>> choose(std::span<const PolicyRow> rows,
                                                    const std::vector<std::string>& names,
                                                    const char* kind) {
  std::vector<const PolicyRow*> chosen;
  for (const PolicyRow& row : rows)
    if (names.empty()) chosen.push_back(&row);
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find(rows, name, [](const PolicyRow& row) { return std::string(row.name); });
    if (found == rows.end()) {
      std::string known;
      for (const PolicyRow& row : rows) known += std::string(known.empty() ? "" : ", ") + row.name;
      complain(fmt::format("there is no {} '{}': there are {}", kind, name, known));
      return std::nullopt;
    }
    chosen.push_back(&*found);
  }
  return chosen;
}

// The results of one workload, by policy.
struct PolicyRow {
  const Workload* workload;
  std::vector<Result> results;  // of the best round
  // The oracle's time divided by the best policy's time.
  double oracle_share = 0;

  std::size_t best_policy() const {
    const auto best = std::ranges::min_element(results, {}, &Result::seconds);
    return static_cast<std::size_t>(best - results.begin());
  }
  double best() const { return results[best_policy()].seconds; }
  double of_best(std::size_t policy) const { return results[policy].seconds / best(); }
};

// Returns the results of one workload, or the error.
std::variant<PolicyRow, std::string> measure(const Workload& workload,
                                             const std::vector<std::string>& policies,
                                             const replay::CostModel& costs,
                                             const PolicyBenchOptions& options,
                                             Progress& progress) {
  PolicyRow row{&workload, std::vector<Result>(policies.size()), 0};
  // The policies take turns, so that other load on the machine affects all of them.
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < policies.size(); ++i) {
      progress.show(fmt::format("{} under {}: round {} of {}", workload.name, policies[i],
                                round + 1, options.rounds));
      Result result;
      // Each run needs its own process, because a process cannot change its policy.
      const std::string wrong = run_apart(result, [&](Result& its) {
        detail::check(wherrySetPolicy(policies[i].c_str()), "wherrySetPolicy");
        its = run(workload, options.seed);
      });
      if (!wrong.empty()) return fmt::format("{} under {}: {}", workload.name, policies[i], wrong);
      if (result.seconds < row.results[i].seconds) row.results[i] = result;
    }
  progress.show(fmt::format("{}: what it would be if the future were known", workload.name));
  const std::string trace =
      options.traces.empty() ? "" : fmt::format("{}/{}", options.traces, workload.name);
  const auto oracle =
      oracle_share(workload, policies[row.best_policy()], options.seed, costs, trace);
  if (const auto* wrong = std::get_if<std::string>(&oracle))
    return fmt::format("{}, recorded: {}", workload.name, *wrong);
  row.oracle_share = std::get<double>(oracle);
  return row;
}

// The geometric mean, over all workloads, of this policy's time divided by the best policy's.
double geometric_mean(const std::vector<PolicyRow>& rows, std::size_t policy) {
  double sum = 0;
  for (const PolicyRow& row : rows) sum += std::log(row.of_best(policy));
  return std::exp(sum / static_cast<double>(rows.size()));
}

// The geometric mean over all workloads of the oracle's time divided by that of the best policy.
double geometric_mean_of_oracle(const std::vector<PolicyRow>& rows) {
  double sum = 0;
  for (const PolicyRow& row : rows) sum += std::log(row.oracle_share);
  return std::exp(sum / static_cast<double>(rows.size()));
}

std::string to_text(const std::vector<PolicyRow>& rows, const std::vector<std::string>& policies,
                    int rounds) {
  std::string text = fmt::format(
      "time by that of the best policy (best of {} rounds); oracle: that of the best policy by "
      "what it would be if the future were known\n\n{:<18}{:>10}",
      rounds, "", "best");
  for (const std::string& policy : policies) text += fmt::format("{:>16}", policy);
  text += fmt::format("{:>10}\n", "oracle");
  for (const PolicyRow& row : rows) {
    text += fmt::format("{:<18}{:>8.1f}ms", row.workload->name, row.best() * 1e3);
    for (std::size_t i = 0; i < policies.size(); ++i)
      text += fmt::format("{:>16.2f}", row.of_best(i));
    text += fmt::format("{:>10.2f}\n", 1 / row.oracle_share);
  }
  text += fmt::format("{:<28}", "geometric mean");
  for (std::size_t i = 0; i < policies.size(); ++i)
    text += fmt::format("{:>16.2f}", geometric_mean(rows, i));
  return text + "\n";
}

Json to_json(const Result& result, double of_best) {
  return {{"seconds", result.seconds},
          {"of_best", of_best},
          {"faults", result.faults},
          {"migrated_pages", result.migrated},
          {"remotely_mapped_pages", result.mapped},
          {"throttled", result.throttled},
          {"thrash_pinned", result.thrash_pinned}};
}
Json to_json(const PolicyRow& row, const std::vector<std::string>& policies) {
  Json by_policy = Json::object();
  for (std::size_t i = 0; i < policies.size(); ++i)
    by_policy[policies[i]] = to_json(row.results[i], row.of_best(i));
  return {{"workload", row.workload->name},
          {"meaning", row.workload->meaning},
          {"policies", by_policy},
          {"oracle",
           {{"seconds", row.best() * row.oracle_share}, {"best_of_oracle", 1 / row.oracle_share}}}};
}

Plot to_plot(const std::vector<PolicyRow>& rows, const std::vector<std::string>& policies,
             int rounds) {
  PlotPanel panel{"time, divided by that of the best policy", PlotAxis::logarithmic, policies, {}};
  panel.series.emplace_back("oracle (predicted)");
  PlotRow mean{"geometric mean", {}};
  for (const PolicyRow& row : rows) {
    PlotRow& its = panel.rows.emplace_back(PlotRow{row.workload->name, {}});
    for (std::size_t i = 0; i < policies.size(); ++i) its.values.push_back(row.of_best(i));
    its.values.push_back(row.oracle_share);
  }
  for (std::size_t i = 0; i < policies.size(); ++i) mean.values.push_back(geometric_mean(rows, i));
  mean.values.push_back(geometric_mean_of_oracle(rows));
  panel.rows.push_back(std::move(mean));
  return {"Workloads under each policy",
          fmt::format("{}; best of {} rounds", describe_machine(), rounds),
          {std::move(panel)}};
}

std::vector<std::string> built_in_names() {
  std::vector<std::string> names;
  for (const impl::PolicyDescription& policy : impl::built_in_policies())
    names.push_back(policy.name);
  return names;
}

void set_devices() {
  ::setenv("WHERRY_DEVICES", "capacity=32M,workers=1;capacity=32M,workers=1", /*overwrite=*/0);
}

// Returns a row for each workload, or the error.
std::variant<std::vector<PolicyRow>, std::string> measure_all(
    const std::vector<const Workload*>& workloads, const std::vector<std::string>& policies,
    const PolicyBenchOptions& options) {
  auto costs = costs_here();
  if (auto* wrong = std::get_if<std::string>(&costs)) return std::move(*wrong);
  std::vector<PolicyRow> rows;
  Progress progress;
  for (const Workload* workload : workloads) {
    progress.enter_step(rows.size() + 1, workloads.size());
    auto row = measure(*workload, policies, std::get<replay::CostModel>(costs), options, progress);
    if (auto* wrong = std::get_if<std::string>(&row)) return std::move(*wrong);
    rows.push_back(std::move(std::get<PolicyRow>(row)));
  }
  return rows;
}

std::string to_json_text(const std::vector<PolicyRow>& rows,
                         const std::vector<std::string>& policies,
                         const PolicyBenchOptions& options) {
  Json json{{"machine", describe_machine()},
            {"rounds", options.rounds},
            {"seed", options.seed},
            {"rows", Json::array()},
            {"geometric_mean_of_best", Json::object()}};
  for (const PolicyRow& row : rows) json["rows"].push_back(to_json(row, policies));
  for (std::size_t i = 0; i < policies.size(); ++i)
    json["geometric_mean_of_best"][policies[i]] = geometric_mean(rows, i);
  return json.dump(2) + "\n";
}

}  // namespace

int run_bench_policies(const PolicyBenchOptions& options) {
  set_devices();
  const auto chosen = choose(workloads(), options.workloads, "workload");
  if (!chosen) return exit_usage;
  const std::vector<std::string> policies =
      options.policies.empty() ? built_in_names() : options.policies;
  for (const std::string& policy : policies) {
    if (const std::string wrong = why_no_policy(policy); !wrong.empty()) {
      complain(wrong);
      return exit_usage;
    }
  }
  const auto measured = measure_all(*chosen, policies, options);
  if (const auto* wrong = std::get_if<std::string>(&measured)) return complain(*wrong);
  const auto& rows = std::get<std::vector<PolicyRow>>(measured);
  const int printed = print_out(options.json ? to_json_text(rows, policies, options)
                                             : to_text(rows, policies, options.rounds));
  return save_plot(to_plot(rows, policies, options.rounds), options.svg) ? printed : exit_failed;
}

void measure_policies(const BenchScale&, std::span<Figures> figures) {
  set_devices();
  PolicyBenchOptions options;
  options.rounds = 1;
  const auto chosen = choose(workloads(), {}, "workload");
  const auto measured = measure_all(*chosen, built_in_names(), options);
  if (const auto* wrong = std::get_if<std::string>(&measured)) throw std::runtime_error(*wrong);
  const auto& rows = std::get<std::vector<PolicyRow>>(measured);
  for (std::size_t i = 0; i < built_in_names().size(); ++i)
    figures[i] = {geometric_mean(rows, i), geometric_mean_of_oracle(rows), 1};
}

}  // namespace wherry::tool
