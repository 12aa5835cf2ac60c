// A launch of a kernel as a value: its parameters are copied, so that it can be launched later and
// repeatedly. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "objects/device.h"
#include "objects/launch_shape.h"

namespace wherry::impl {

class Driver;

struct KernelLaunch {
  CUfunction function = nullptr;  // as the program passed it
  LaunchShape shape{};
  std::vector<std::byte> arguments;  // for run_grid()
  std::size_t blocks = 0;
  KernelFunction subject = nullptr;  // the function in log lines
};

// A launch with pointers to its parameters.
struct KeptLaunch {
  explicit KeptLaunch(KernelLaunch kept);

  const KernelLaunch launch;
  const std::vector<void*> params;  // they point into `launch`
};

// Checks and copies the arguments of cuLaunchKernel. Returns cuLaunchKernel's errors.
CUresult plan_launch(Driver& driver, const Context& context, CUfunction function,
                     const LaunchShape& shape, void** params, void** extra, KernelLaunch& launch);
// Gives the launch to the stream, which is of the context that it was planned for.
WorkStatus run(const StreamHandle& stream, KernelLaunch launch);

}  // namespace wherry::impl
