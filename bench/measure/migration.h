// Times faults that move pages between the host and a device, and the bare sequence of Linux's
// calls in the same run.
#pragma once

#include <cstddef>
#include <vector>

namespace wherry::bench {

struct MigrationLoad {
  std::size_t bytes;   // moved in each run
  std::size_t region;  // moved by one fault
  int runs;
};

// Nanoseconds in which all of the memory moved, for each run. Those of `bare_` are empty where
// Linux permits no userfaultfd.
struct MigrationTimes {
  std::vector<double> to_device, to_host, bare_to_device, bare_to_host;
};

// Starts the library with its own settings. Requires: the library has not been started, and the
// process has one thread.
MigrationTimes measure_migration(const MigrationLoad& load);

}  // namespace wherry::bench
