// What happened in each part of the time: faults, moves by cause, kernels. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/processor.h"
#include "time_bins.h"
#include "trace/event.h"

namespace wherry::report {

using Timeline = std::vector<double>;  // by bin

struct KernelTimes {
  std::uint64_t launches = 0;
  std::uint64_t time_ns = 0;
};

class Timelines {
 public:
  explicit Timelines(const TimeBins& bins);

  // `label`: of a launch, the kernel's name. To be called in order of time.
  void add(const impl::TraceEvent& event, std::string_view label);
  // Launches that have not ended are counted as ended at `end_ns`.
  void end(std::uint64_t end_ns);

  // How many faults the processor had.
  const Timeline& faults(std::size_t processor) const { return faults_[processor]; }
  // Bytes that moved for this reason, and bytes that were copied for any reason.
  const Timeline& moved(impl::EventCause cause) const {
    return moved_[static_cast<std::size_t>(cause)];
  }
  const Timeline& copied() const { return copied_; }
  // How long the processor had a kernel, in nanoseconds: from its launch until the host noticed its
  // end.
  const Timeline& busy(std::size_t processor) const { return busy_[processor]; }
  // The times of kernels, by name.
  const std::map<std::string, KernelTimes, std::less<>>& kernels() const { return kernels_; }

 private:
  struct Launch {
    std::uint64_t begin_ns;
    std::string kernel;
  };
  using LaunchId = std::pair<std::int8_t, std::uint32_t>;  // the device, and its number there

  void begin_launch(const impl::TraceEvent& event, std::string_view kernel);
  void end_launch(std::map<LaunchId, Launch>::iterator launch, std::uint64_t time_ns);

  const TimeBins bins_;
  std::array<Timeline, impl::max_processors> faults_, busy_;
  std::array<Timeline, impl::event_causes> moved_;
  Timeline copied_;
  std::map<LaunchId, Launch> running_;
  // By processor: until when its time is in busy_, so that kernels that run side by side count
  // once.
  std::array<std::uint64_t, impl::max_processors> busy_until_ns_{};
  std::map<std::string, KernelTimes, std::less<>> kernels_;
};

}  // namespace wherry::report
