// Every environment variable that the library and the tools read. docs/tuning.md describes each
// one, and tests/tree/environment_test.py compares that page with the table below. No other code
// calls getenv.
//
// A privileged program (set-uid, set-gid, or with file capabilities: Linux passes AT_SECURE) runs
// with more rights than the user who chose its environment. In such a program, variables that name
// a file or code are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wherry::impl {

struct EnvironmentVariable {
  std::string_view name;
  bool read_when_privileged;
  std::string_view meaning;
};

// To add a variable, add a row here and a section in docs/tuning.md. Names that begin with
// WHERRY_TEST_ are reserved for the tests.
inline constexpr EnvironmentVariable environment_variables[] = {
    {"WHERRY_DEVICES", true, "which devices there are"},
    {"WHERRY_HOST_NODES", true, "NUMA nodes of the host's pool"},
    {"WHERRY_HOST_CAPACITY", true, "bytes of the host's pool"},
    {"WHERRY_ARENA", true, "addresses for managed memory"},
    {"WHERRY_POLICY", false, "the placement policy: a name, or a shared object to load"},
    {"WHERRY_FAULT_REGION", true, "how much one fault moves"},
    {"WHERRY_COPIERS", true, "threads that prefetch and copy"},
    {"WHERRY_HUGE_PAGES", true, "whether pools have pages of 2 MiB"},
    {"WHERRY_SAMPLING", true, "how much time samples of accesses may take"},
    {"WHERRY_TRACE", false, "the file that events are written to"},
    {"WHERRY_LOG", true, "which lines the log has"},
    {"WHERRY_TRAP", true, "how accesses to absent pages are detected"},
    {"WHERRY_WAIT_LIMITS", true, "whether waits that take too long end in an error"},
    {"WHERRY_CHECK", true, "whether kernels may write to the program's ordinary memory"},
    {"WHERRY_RUN", false, "what `wherry run` tells the library that it preloads"},
    {"CUDA_VISIBLE_DEVICES", true, "which devices the program sees"},
    {"CUDA_LAUNCH_BLOCKING", true, "each launch waits for its kernel"},
    {"OMPI_COMM_WORLD_RANK", true, "the MPI rank of this process"},
    {"PMI_RANK", true, "the MPI rank, without the variable before"},
    {"PMIX_RANK", true, "the MPI rank, without the variables before"},
    {"MV2_COMM_WORLD_RANK", true, "the MPI rank, without the variables before"},
    {"SLURM_PROCID", true, "the MPI rank, without the variables before"},
    {"PATH", true, "where `wherry run` finds the program"},
    {"LD_PRELOAD", true, "what else is preloaded into that program"},
    {"TERM", true, "whether the terminal can erase a line"},
    {"XDG_CACHE_HOME", false, "where what was measured of this machine is kept"},
    {"HOME", false, "where that is kept without XDG_CACHE_HOME"},
};

// The name of a row of the table. A name that is not in the table does not compile.
class EnvironmentName {
 public:
  consteval EnvironmentName(const char* name) : row_(nullptr) {
    for (const EnvironmentVariable& variable : environment_variables)
      if (variable.name == name) row_ = &variable;
    if (row_ == nullptr) throw "lib/base/environment.h has no row with this name";
  }
  const EnvironmentVariable& row() const { return *row_; }

 private:
  const EnvironmentVariable* row_;
};

// Returns the value, or null if the variable is unset or if a privileged program must ignore it.
const char* environment_value(EnvironmentName name);
// Returns the value, or an empty string where environment_value() returns null.
std::string environment(EnvironmentName name);

// Returns the variables of this process whose names begin with WHERRY_, as NAME=VALUE, sorted by
// name. Variables that nothing reads are included.
std::vector<std::string> settings_in_environment();

// Checks an environment (`lines`: NAME=VALUE, null-terminated) and returns one message line per
// problem: for each WHERRY_ variable that the table lacks, with the nearest known name, and for the
// variables that a privileged program ignores.
std::vector<std::string> environment_complaints(const char* const* lines, bool privileged);
// Logs the problems of this process's environment, once per process. cuInit and the tools call it.
void complain_about_environment();

}  // namespace wherry::impl
