// `wherry policies`: which policies there are, and with what parameters; and the option by which
// other commands choose one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace wherry::tool {

// Prints them as a table or JSON. Returns the exit code.
int run_policies(bool json);

// Why there is no such policy, as far as can be told without starting it; empty: there may be.
std::string why_no_policy(const std::string& text);

// The policies of a list: "a,b,c", where what has a '=' is a parameter of the policy before it, and
// a shared object (what has a '/') gets all that follows it.
std::vector<std::string> policies_in(const std::string& list);

// `--policy NAME[,PARAMETER=NUMBER...]`: what the command does is done under this policy.
void add_policy(CLI::App& command);

}  // namespace wherry::tool
