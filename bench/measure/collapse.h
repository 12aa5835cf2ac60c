// Writes by the host to pages of which devices hold copies, beside the bare kernel calls that end
// the copies, in the same run.
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

// Microseconds for each page that is written, for each run. The bare ones are empty where Linux
// permits no userfaultfd.
struct CollapseTimes {
  std::vector<double> ours, bare;
  double pages_per_fault;
};

// Starts the library with its own settings. Requires: the library has not been started, and the
// process has one thread.
CollapseTimes measure_collapse(const CollapseLoad& load);

}  // namespace wherry::bench
