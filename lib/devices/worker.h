// The threads of a device process that run kernels.
#pragma once

#include <vector>

#include "devices/launch_board.h"
#include "os/files/fd.h"

namespace wherry::impl {

struct WorkerOptions {
  int ordinal = 0;  // of the device, for the threads' names
  int count = 1;
  std::vector<int> cpus;  // CPUs that workers may run on; empty: any
};

// Starts the workers, and returns when all run. They run until the process ends, and signal
// `completion` when a launch is finished. `board` and `completion` live as long as the process.
// Throws std::system_error. The host limits the wait.
void start_workers(LaunchBoard& board, const Fd& completion, const WorkerOptions& options);

}  // namespace wherry::impl
