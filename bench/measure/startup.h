// How long cuInit and a very large allocation take in a small program.
#pragma once

namespace wherry::bench {

struct StartupTimes {
  double init_ms;        // cuInit with two devices
  double allocation_ms;  // cuMemAllocManaged of 100 GiB
};

// Starts the library. Requires: it has not been started.
StartupTimes measure_startup();

}  // namespace wherry::bench
