// Runs a program with a time limit and its output in files, for `wherry bench programs`.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace wherry::tool {

struct TimedRun {
  double seconds = 0;
  double cpu_seconds = 0;  // of all its processes
  int code = 0;            // in the form of shells
  bool timed_out = false;
};

// Runs the program in the folder. If there is a client, the program is a server: the client starts
// just after it, and both have to end. The files stdout and stderr in the folder get the output of
// the client if there is one, else of the program; server-stdout and server-stderr get that of a
// server. The code is the program's, or the client's if the program's is 0. After the time limit
// both are killed, with the processes of their groups. A signal that ends this process kills both
// first. Throws std::system_error.
TimedRun run_timed(const std::vector<std::string>& program, const std::vector<std::string>& client,
                   const std::filesystem::path& folder, std::chrono::seconds limit);

}  // namespace wherry::tool
