// `wherry policies`: lists the policies and their parameters. Also the option by which other
// commands choose a policy.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

// Prints the policies as a table or JSON. Returns the exit code.
int run_policies(bool json);

// Returns why `text` names no policy, as far as that can be told without starting one; else empty.
std::string why_no_policy(const std::string& text);

// Splits a list of policies "a,b,c". A part that contains '=' is a parameter of the policy before
// it. A shared object (a part that contains '/') takes the whole rest of the list.
std::vector<std::string> policies_in(const std::string& list);

// Adds `--policy NAME[,PARAMETER=NUMBER...]`: the command runs under this policy.
void add_policy(CLI::App& command);

}  // namespace wherry::tool
