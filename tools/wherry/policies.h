// `wherry policies`: which policies there are, and with what parameters; and the option by which other commands choose one.
#pragma once

#include <CLI/CLI.hpp>

namespace wherry::tool {

// Prints them as a table or JSON. Returns the exit code.
int run_policies(bool json);

// `--policy NAME[,PARAMETER=NUMBER...]`: what the command does is done under this policy.
void add_policy(CLI::App& command);

}  // namespace wherry::tool
