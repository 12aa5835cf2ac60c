#include "bench_policies.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "bench_report.h"
#include "complain.h"
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
// As a child tells it: a result, or a line that says why there is none.
struct Told {
  bool failed = true;
  Result result;
  char why[200] = "its process ended";
};

constexpr int run_limit_ms = 120'000;

Result run(const Workload& workload, const PolicyBenchOptions& options) {
  const runtime library;
  if (library.device_count() < workload.devices)
    throw std::runtime_error(fmt::format("it needs {} devices", workload.devices));
  Result result;
  result.seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < options.rounds; ++round)
    result.seconds = std::min(result.seconds, workload.run({library, options.seed}));
  const wherryStats stats = library.stats();
  result.faults = stats.faults_missing + stats.faults_minor + stats.faults_write_protect;
  result.migrated = stats.migrated_in;
  result.mapped = stats.mapped_remotely;
  result.throttled = stats.throttled;
  result.thrash_pinned = stats.thrash_pinned;
  return result;
}

Told tell(const Workload& workload, const std::string& policy, const PolicyBenchOptions& options) {
  Told told;
  try {
    detail::check(wherrySetPolicy(policy.c_str()), "wherrySetPolicy");
    told.result = run(workload, options);
    told.failed = false;
  } catch (const std::exception& failure) {
    std::strncpy(told.why, failure.what(), sizeof told.why - 1);
  }
  return told;
}

// In a process of its own: a policy is for a process's life.
Told run_apart(const Workload& workload, const std::string& policy,
               const PolicyBenchOptions& options) {
  Told told;
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe can be had");
  const pid_t child = ::fork();
  if (child == 0) {
    const Told own = tell(workload, policy, options);
    ::_exit(::write(ends[1], &own, sizeof own) == sizeof own ? 0 : 1);
  }
  ::close(ends[1]);
  pollfd waiting{ends[0], POLLIN, 0};
  const bool came = child > 0 && ::poll(&waiting, 1, run_limit_ms) == 1;
  Told read;
  if (came && ::read(ends[0], &read, sizeof read) == sizeof read) told = read;
  if (!came) std::strcpy(told.why, "it does not end");
  ::close(ends[0]);
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return told;
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
    const auto choice = impl::choose_policy(policy);
    if (const auto* wrong = std::get_if<std::string>(&choice)) {
      complain(*wrong);
      return exit_usage;
    }
  }

  std::string text =
      fmt::format("time by that of the best policy (best of {} rounds)\n\n{:<18}{:>10}",
                  options.rounds, "", "best");
  for (const std::string& policy : policies) text += fmt::format("{:>16}", policy);
  text += "\n";
  Json rows = Json::array();
  for (const Workload* workload : *chosen) {
    std::vector<Result> results;
    for (const std::string& policy : policies) {
      const Told told = run_apart(*workload, policy, options);
      if (told.failed)
        return complain(fmt::format("{} under {}: {}", workload->name, policy, told.why));
      results.push_back(told.result);
    }
    const double best = std::ranges::min_element(results, {}, &Result::seconds)->seconds;
    text += fmt::format("{:<18}{:>8.1f}ms", workload->name, best * 1e3);
    Json by_policy = Json::object();
    for (std::size_t i = 0; i < policies.size(); ++i) {
      text += fmt::format("{:>16.2f}", results[i].seconds / best);
      by_policy[policies[i]] = to_json(results[i], best);
    }
    text += "\n";
    rows.push_back(
        {{"workload", workload->name}, {"meaning", workload->meaning}, {"policies", by_policy}});
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
