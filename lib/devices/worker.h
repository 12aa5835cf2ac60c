// Runs in the device process: the threads that run kernels.
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

// Starts the workers. They run until the process ends, and signal `completion` when a launch is
// finished. `board` and `completion` live as long as the process. Throws std::system_error.
//
// Returns false if a worker does not run within seconds. This happens if the program's allocator is
// not prepared for fork(), as AddressSanitizer's is not: the device has a copy of a lock that
// another thread of the host held, and nobody unlocks it.
[[nodiscard]] bool start_workers(LaunchBoard& board, const Fd& completion,
                                 const WorkerOptions& options);

}  // namespace wherry::impl
