// Finds the policy that WHERRY_POLICY or wherrySetPolicy() names: a built-in one, one that the
// program has registered, or a shared object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <wherry/policy.hpp>

#include "machine/policy_machine.h"
#include "policy/policy.h"

namespace wherry::impl {

// Makes a policy; null if it refuses its parameters.
using PolicySource = std::function<std::unique_ptr<const Policy>(const PolicyMachine&)>;

struct NamedPolicy {
  std::string name;  // as the user wrote it, with its parameters; empty: the default policy
  PolicySource source;
};

// Returns `name`; for "auto" or an empty name, the policy that it means on this machine.
std::string name_in_force(const std::string& name, const AccessCosts& access_costs);

// Finds the policy that `text` ("NAME" or "NAME,PARAMETERS") names. A NAME with a slash is the path
// of a shared object: find_policy() loads it, and unloads it only if it has no suitable policy. An
// empty text names the default policy. Returns one line that states the error if there is no such
// policy. Throws std::bad_alloc.
std::variant<PolicySource, std::string> find_policy(std::string_view text);

enum class PolicyRefusal {
  none,
  null_argument,
  bad_name,
  other_version,
  name_taken
};

// Does wherryRegisterPolicy(), without looking at the library's state. Throws std::bad_alloc.
PolicyRefusal register_policy(const char* name, unsigned version, wherry::make_policy* make);

}  // namespace wherry::impl
