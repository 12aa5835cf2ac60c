// Complaints about a word that is no command of `wherry`, or no subcommand of a command.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace wherry::tool {

// Reads the first of the words after "wherry" as commands, up to the first option. Returns a line
// that names the first unknown one, the most similar command, and all that fit in its place; empty
// if all are known.
std::string unknown_command(const CLI::App& app, std::span<const char* const> words);

}  // namespace wherry::tool
