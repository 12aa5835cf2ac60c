#include "measure/collapse.h"

#include <cstdlib>
#include <optional>

#include "measure/bare_collapse.h"
#include "measure/managed.h"
#include "measure/timing.h"
#include "measure/touches.h"

namespace wherry::bench {

CollapseTimes measure_collapse(const CollapseLoad& load) {
  move_single_regions(load.region);
  ::setenv("WHERRY_DEVICES", "capacity=1G,workers=1;capacity=1G,workers=1", 1);
  allowed_cpus();
  // Fork the bare device processes first, while this program has one thread.
  std::optional<BareCollapse> bare;
  if (userfaultfd_permitted()) bare.emplace(load.bytes, load.stride, load.region, load.devices);
  init_cuda();
  pin_to_allowed_cpu(0);

  std::byte* const memory = alloc_managed(load.bytes);
  const DeviceToucher device;
  timed_touch(memory, load.bytes, load.stride);
  advise(memory, load.bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, host_location);
  const auto duplicate = [&] {
    for (int ordinal = 0; ordinal < load.devices; ++ordinal) {
      use_device(ordinal);
      device.touch(memory, load.bytes, load.stride, DeviceToucher::Access::read);
    }
  };

  const double pages = static_cast<double>(load.bytes / load.stride);
  CollapseTimes times{};
  const auto run_ours = [&] {
    duplicate();
    times.ours.push_back(timed_touch(memory, load.bytes, load.stride) / 1e3 / pages);
  };
  const auto run_bare = [&] {
    if (!bare) return;
    bare->duplicate();
    times.bare.push_back(bare->write() / 1e3 / pages);
  };
  const wherryProcessorStats before = stats().processor[0];
  for (int run = -1; run < load.runs; ++run) {
    if (run % 2 == 0) {
      run_ours();
      run_bare();
    } else {
      run_bare();
      run_ours();
    }
    if (run < 0) times = {};  // the first run warms up
  }
  const wherryProcessorStats after = stats().processor[0];
  free_managed(memory);
  times.pages_per_fault =
      static_cast<double>(after.collapsed - before.collapsed) /
      static_cast<double>(after.faults_write_protect - before.faults_write_protect);
  return times;
}

}  // namespace wherry::bench
