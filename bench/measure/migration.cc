#include "measure/migration.h"

#include <cstdlib>
#include <optional>

#include "measure/bare_migration.h"
#include "measure/managed.h"
#include "measure/timing.h"
#include "measure/touches.h"

namespace wherry::bench {

MigrationTimes measure_migration(const MigrationLoad& load) {
  move_single_regions(load.region);
  ::setenv("WHERRY_DEVICES", "capacity=1G,workers=1", 1);
  allowed_cpus();
  // Fork the bare device process first, while this program has one thread.
  std::optional<BareMigration> bare;
  if (userfaultfd_permitted()) bare.emplace(load.bytes, load.region);
  init_cuda();
  pin_to_allowed_cpu(0);

  std::byte* const memory = alloc_managed(load.bytes);
  const DeviceToucher device;
  timed_touch(memory, load.bytes, 4096);

  MigrationTimes times;
  const auto run_ours = [&] {
    times.to_device.push_back(device.touch(memory, load.bytes, load.region));
    times.to_host.push_back(timed_touch(memory, load.bytes, load.region));
  };
  const auto run_bare = [&] {
    if (!bare) return;
    times.bare_to_device.push_back(bare->touch_at_device());
    times.bare_to_host.push_back(bare->touch_at_host());
  };
  for (int run = -1; run < load.runs; ++run) {
    // The second run profits from pages that the first one left in the CPU caches, so the order
    // alternates.
    if (run % 2 == 0) {
      run_ours();
      run_bare();
    } else {
      run_bare();
      run_ours();
    }
    if (run < 0) times = {};  // the first run warms up
  }
  free_managed(memory);
  return times;
}

}  // namespace wherry::bench
