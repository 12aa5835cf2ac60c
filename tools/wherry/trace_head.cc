#include "trace_head.h"

#include <fmt/core.h>

#include <algorithm>

#include "policy/policies.h"

namespace wherry::tool {
namespace {

std::string settings_text(const impl::TraceSettings& settings) {
  std::string policy = settings.policy;
  if (policy.empty())
    policy = "none: accesses that another tool recorded";
  else if (settings.policy_in_force != policy)
    policy += fmt::format(", which is {} here", settings.policy_in_force);
  std::string text = fmt::format("policy: {}\nWherry {}", policy, settings.version);
  if (!settings.kernel.empty()) text += fmt::format(", Linux {}", settings.kernel);
  if (!settings.cpu.empty()) text += fmt::format(", {}", settings.cpu);
  if (settings.cpus != 0)
    text += fmt::format(", {} CPUs, {} NUMA nodes", settings.cpus, settings.nodes);
  text += '\n';
  for (const std::string& line : settings.environment) text += fmt::format("  {}\n", line);
  return text;
}

}  // namespace

std::string trace_head(const TraceAbout& trace, std::uint64_t events) {
  const impl::TraceMachine& machine = trace.machine;
  std::string text = fmt::format(
      "{} (process {}), trap: {}\n{} events in {:.3f} s\n", machine.program, machine.process,
      machine.trap, events,
      static_cast<double>(static_cast<std::int64_t>(trace.end_ns - machine.start_ns)) / 1e9);
  if (trace.settings) text += settings_text(*trace.settings);
  if (!trace.complete)
    text += "The trace breaks off: the program was killed or still runs, or the disk was full.\n";
  return text;
}

std::optional<bool> leaves_pages(const std::string& policy) {
  const auto policies = impl::built_in_policies();
  const auto found = std::ranges::find(policies, policy.substr(0, policy.find(',')),
                                       &impl::PolicyDescription::name);
  if (found == policies.end()) return std::nullopt;
  return found->leaves_pages;
}

}  // namespace wherry::tool
