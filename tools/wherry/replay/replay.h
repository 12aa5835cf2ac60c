// Replays a recorded run, the nodes of a replay::Timeline, with another policy or on another
// machine. A node starts when all nodes that it depends on have ended and its own delay has passed.
//
// The result is deterministic: nodes that are due at the same time are taken in recorded order.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/policy.h"
#include "replay/machine.h"
#include "replay/timeline.h"

namespace wherry::replay {

// A part of the recorded time.
struct Window {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

struct ReplayRequest {
  const Timeline& timeline;
  const MachineSetting& setting;
  const CostModel& costs;
  const impl::Policy& policy;
  Window window;
  // If not null, the replay stores the number of the current node there, for policies that need it.
  std::uint32_t* current = nullptr;
};

struct ReplayResult {
  MachineCounts counts;
  // The sum over all threads of the time from fault message to answer.
  std::uint64_t stall_ns = 0;
  std::uint64_t time_ns = 0;  // the simulated duration of the window
};

// Throws std::bad_alloc, std::system_error, and what the policy throws.
ReplayResult replay(const ReplayRequest& request);

// The machine on which a trace was recorded. `capacity_pages`, if not 0, replaces the capacity of
// each device.
MachineSetting setting_of(const Timeline& timeline, std::uint64_t capacity_pages = 0);
// The setting for a replay under the recorded policy: devices with the recorded capacities evict
// the blocks that they evicted in the recording.
MachineSetting as_recorded(const MachineSetting& setting, const Timeline& timeline);
// The whole recorded time.
Window whole(const tool::Trace& trace);

}  // namespace wherry::replay
