// `wherry policies`: which policies there are, and with what parameters; and the option by which other commands choose one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace wherry::tool {

// Prints them as a table or JSON. Returns the exit code.
int run_policies(bool json);

// Why there is no such policy, as far as can be told without starting it; empty: there may be.
std::string why_no_policy(const std::string& text);

// `--policy NAME[,PARAMETER=NUMBER...]`: what the command does is done under this policy.
void add_policy(CLI::App& command);

}  // namespace wherry::tool
