// The built-in policies, by name, and their parameters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "policy/access_costs.h"
#include "policy/policy.h"

namespace wherry::impl {

struct PolicyParameter {
  const char* name;
  std::uint64_t usual;
  std::uint64_t least;
  std::uint64_t most;
  const char* meaning;  // with its unit
};

struct PolicyDescription {
  const char* name;
  const char* meaning;
  // The policy often maps a page where it is. Further accesses of the processor then cause no
  // faults, so a recording says little about policies that move pages.
  bool leaves_pages;
  std::span<const PolicyParameter> parameters;
};

std::span<const PolicyDescription> built_in_policies();

// "auto", the default, stands for the built-in policy that suits the machine: adaptive where some
// processor accesses another one's memory more slowly than its own, as where devices are NUMA nodes
// of their own. Elsewhere devices are emulated: they stand for GPUs, and uvm does what the driver
// of GPUs does.
inline constexpr std::string_view automatic_policy = "auto";
std::string_view policy_for(const AccessCosts& access_costs);

struct PolicyChoice {
  std::string name;  // automatic_policy, or that of a built-in policy
  // The parameters that differ from their defaults.
  std::map<std::string, std::uint64_t> values;
};

// Parses "NAME" or "NAME,PARAMETER=NUMBER,...", the syntax of WHERRY_POLICY. An empty text chooses
// the default policy. Returns the choice, or one line that says what is wrong and what is possible.
std::variant<PolicyChoice, std::string> choose_policy(std::string_view text);

// Requires: `choice` was returned by choose_policy().
std::unique_ptr<const Policy> make_policy(const PolicyChoice& choice,
                                          const AccessCosts& access_costs);

}  // namespace wherry::impl
