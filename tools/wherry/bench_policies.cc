#include "bench_policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "apart.h"
#include "bench_oracle.h"
#include "bench_report.h"
#include "complain.h"
#include "policies.h"
#include "policy/policies.h"
#include "workloads.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

// What a workload took under a policy, and what the library did for it.
struct Result {
  double seconds = 0;  // the best of the rounds
  std::uint64_t faults = 0;
  std::uint64_t migrated = 0;  // pages
  std::uint64_t mapped = 0;    // pages, remotely
  std::uint64_t throttled = 0;
  std::uint64_t thrash_pinned = 0;
};
Result run(const Workload& workload, const PolicyBenchOptions& options) {
  const runtime library;
  if (library.device_count() < workload.devices)
    throw std::runtime_error(fmt::format("it needs {} devices", workload.devices));
  Result result;
  result.seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < options.rounds; ++round)
    result.seconds = std::min(result.seconds, workload.run({library, options.seed}).seconds());
  const wherryStats stats = library.stats();
  result.faults = stats.faults_missing + stats.faults_minor + stats.faults_write_protect;
  result.migrated = stats.migrated_in;
  result.mapped = stats.mapped_remotely;
  result.throttled = stats.throttled;
  result.thrash_pinned = stats.thrash_pinned;
  return result;
}

// The rows of a table that have these names, or all. Nothing: there is none of a name, which is said.
template <typename Row>
std::optional<std::vector<const Row*>> choose(std::span<const Row> rows,
                                              const std::vector<std::string>& names,
                                              const char* kind) {
  std::vector<const Row*> chosen;
  for (const Row& row : rows)
    if (names.empty()) chosen.push_back(&row);
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find(rows, name, [](const Row& row) { return std::string(row.name); });
    if (found == rows.end()) {
      std::string known;
      for (const Row& row : rows) known += std::string(known.empty() ? "" : ", ") + row.name;
      complain(fmt::format("there is no {} '{}': there are {}", kind, name, known));
      return std::nullopt;
    }
    chosen.push_back(&*found);
  }
  return chosen;
}

Json to_json(const Result& result, double best) {
  return {{"seconds", result.seconds},
          {"of_best", result.seconds / best},
          {"faults", result.faults},
          {"migrated_pages", result.migrated},
          {"remotely_mapped_pages", result.mapped},
          {"throttled", result.throttled},
          {"thrash_pinned", result.thrash_pinned}};
}

}  // namespace

int run_bench_policies(const PolicyBenchOptions& options) {
  ::setenv("WHERRY_DEVICES", "capacity=32M,workers=1;capacity=32M,workers=1", /*overwrite=*/0);
  const auto chosen = choose(workloads(), options.workloads, "workload");
  if (!chosen) return exit_usage;
  std::vector<std::string> policies = options.policies;
  if (policies.empty())
    for (const impl::PolicyDescription& policy : impl::built_in_policies())
      policies.push_back(policy.name);
  for (const std::string& policy : policies) {
    if (const std::string wrong = why_no_policy(policy); !wrong.empty()) {
      complain(wrong);
      return exit_usage;
    }
  }

  const auto costs = costs_here();
  if (const auto* wrong = std::get_if<std::string>(&costs)) return complain(*wrong);

  std::string text = fmt::format(
      "time by that of the best policy (best of {} rounds); oracle: that of the best policy by "
      "what "
      "it would be if the future were known\n\n{:<18}{:>10}",
      options.rounds, "", "best");
  for (const std::string& policy : policies) text += fmt::format("{:>16}", policy);
  text += fmt::format("{:>10}\n", "oracle");
  Json rows = Json::array();
  for (const Workload* workload : *chosen) {
    std::vector<Result> results;
    for (const std::string& policy : policies) {
      // A policy is for a process's life.
      const std::string wrong = run_apart(results.emplace_back(), [&](Result& result) {
        detail::check(wherrySetPolicy(policy.c_str()), "wherrySetPolicy");
        result = run(*workload, options);
      });
      if (!wrong.empty())
        return complain(fmt::format("{} under {}: {}", workload->name, policy, wrong));
    }
    const auto oracle = oracle_seconds(*workload, options.seed, std::get<replay::CostModel>(costs));
    if (const auto* wrong = std::get_if<std::string>(&oracle))
      return complain(fmt::format("{}, recorded: {}", workload->name, *wrong));
    const double best = std::ranges::min_element(results, {}, &Result::seconds)->seconds;
    const double of_oracle = best / std::get<double>(oracle);
    text += fmt::format("{:<18}{:>8.1f}ms", workload->name, best * 1e3);
    Json by_policy = Json::object();
    for (std::size_t i = 0; i < policies.size(); ++i) {
      text += fmt::format("{:>16.2f}", results[i].seconds / best);
      by_policy[policies[i]] = to_json(results[i], best);
    }
    text += fmt::format("{:>10.2f}\n", of_oracle);
    rows.push_back(
        {{"workload", workload->name},
         {"meaning", workload->meaning},
         {"policies", by_policy},
         {"oracle", {{"seconds", std::get<double>(oracle)}, {"best_of_oracle", of_oracle}}}});
  }
  if (!options.json) return print_out(text);
  return print_out(Json{{"machine", describe_machine()},
                        {"rounds", options.rounds},
                        {"seed", options.seed},
                        {"rows", rows}}
                       .dump(2) +
                   "\n");
}

}  // namespace wherry::tool
