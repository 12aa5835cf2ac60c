// Walks a recorded run with another policy, or another machine: each thing happens when all that it
// came after has ended, and its own while has passed.
//
// The same input gives the same result, bit for bit: what happens at the same moment happens in the
// order of the record.
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
  std::uint32_t* current = nullptr;  // says which node is under way, to a policy that wants to know
};

struct ReplayResult {
  MachineCounts counts;
  std::uint64_t stall_ns = 0;  // of all threads, from their faults' messages to the answers
  std::uint64_t time_ns = 0;   // that what happened in the window would take
};

// Throws std::bad_alloc, and what the policy throws.
ReplayResult replay(const ReplayRequest& request);

// The machine that a trace was recorded on; `capacity_pages` of each device, if it is not 0,
// instead of what they had.
MachineSetting setting_of(const Timeline& timeline, std::uint64_t capacity_pages = 0);
// All of the recorded time.
Window whole(const impl::Trace& trace);

}  // namespace wherry::replay
