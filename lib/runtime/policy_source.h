// Where the policy comes from that WHERRY_POLICY or wherrySetPolicy() names: a built-in one, one
// that the program has registered, or a shared object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <wherry/policy.hpp>

#include "policy/policy.h"
#include "runtime/policy_machine.h"

namespace wherry::impl {

// Null: the policy refuses its parameters.
using PolicySource = std::function<std::unique_ptr<const Policy>(const PolicyMachine&)>;

// "NAME" or "NAME,PARAMETERS", where NAME is a path if it has a slash; empty: the usual one. Shared
// objects are loaded, and stay so. A string: one line that says what is wrong. Throws
// std::bad_alloc.
std::variant<PolicySource, std::string> find_policy(std::string_view text);

// As wherryRegisterPolicy(), but for the state of the library.
CUresult register_policy(const char* name, unsigned version, wherry::make_policy* make);

}  // namespace wherry::impl
