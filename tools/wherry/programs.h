// Programs of Debian that know nothing of Wherry, with inputs that are the same each time.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace wherry::tool {

struct Program {
  std::string name;
  std::string meaning;
  std::string packages;            // Debian's packages that have it, separated by spaces
  std::vector<std::string> needs;  // programs, or files with a path, that must be there
  // Writes the inputs into the folder in which the program is to run.
  void (*prepare)(const std::filesystem::path& folder) = nullptr;
  std::vector<std::string> command;
  // If not empty, the command is a server, and this client makes it end.
  std::vector<std::string> client = {};
  // Where the results are, in the folder.
  std::string results = "stdout";
  // Whether the results have times or speeds. Then runs are compared without their figures.
  bool prints_figures = false;
  // If not empty, only lines with one of these texts are results.
  std::vector<std::string> result_lines = {};
};

std::span<const Program> programs();

// Whether this machine has all that the program needs.
bool is_installed(const Program& program);

}  // namespace wherry::tool
