// Times the host's writes to pages of which devices hold copies, and in the same run Linux's bare
// calls that end the copies.
#pragma once

#include <cstddef>
#include <vector>

namespace wherry::bench {

struct CollapseLoad {
  std::size_t bytes;
  std::size_t region;  // that one write makes writable
  std::size_t stride;  // from one write to the next
  int devices;         // at most 2
  int runs;
};

// Microseconds for each page that is written, for each run. `bare` is empty where Linux permits no
// userfaultfd.
struct CollapseTimes {
  std::vector<double> ours, bare;
  double pages_per_fault;
};

// Starts the library with its own settings. Requires: the library has not been started, and the
// process has one thread.
CollapseTimes measure_collapse(const CollapseLoad& load);

}  // namespace wherry::bench
