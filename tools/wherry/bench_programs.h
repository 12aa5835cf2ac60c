// `wherry bench programs`: programs of Debian (programs.h), with and without `wherry run`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wherry::tool {

struct ProgramBenchOptions {
  std::vector<std::string> only;  // patterns of names; if empty, all programs
  int rounds = 5;
  bool list = false;    // only lists the programs
  bool record = false;  // runs each also with --record
  double sample = 0;    // if not 0: runs each also with --record and --sample
  // Bytes that warm_up_memory() uses before the runs, at most half of the available memory. No
  // program uses more than the default.
  std::uint64_t warm = std::uint64_t{4} << 30;
  std::string traces;  // a folder for the traces of the last round, if not empty
  // Passed to `wherry run`.
  std::string devices;
  std::string policy;
  std::vector<std::string> attach;
  bool json = false;
};

// Prints to stdout, progress to stderr if it is a terminal, and one line to stderr for each program
// whose results differ under `wherry run`. Returns the exit code. Throws std::exception.
int run_bench_programs(const ProgramBenchOptions& options);

}  // namespace wherry::tool
