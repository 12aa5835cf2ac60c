// The time of a solve by phase, and the faults and page moves of each phase: differences of the
// library's counters, taken whenever the phase changes. Not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>
#include <wherry/wherry.hpp>

#include "memory/counters.h"

namespace wherry::tool {

enum class Phase {
  assemble,  // the host writes the matrix and the vectors
  exchange,  // the host writes the devices' copies of p, and reads their parts of q
  multiply,  // the devices compute q = A p
  vectors,   // the host computes the rest of an iteration
  check,     // the same solve in ordinary memory
};
inline constexpr std::array all_phases = {Phase::assemble, Phase::exchange, Phase::multiply,
                                          Phase::vectors, Phase::check};

const char* to_string(Phase phase);

// A counter and its name, which is also its key in JSON.
struct CounterField {
  const char* name;
  std::uint64_t wherryProcessorStats::*value;
};
#define WHERRY_FIELD(name) {#name, &wherryProcessorStats::name},
inline constexpr CounterField counter_fields[] = {WHERRY_PROCESSOR_COUNTERS(WHERRY_FIELD)};
#undef WHERRY_FIELD

// Add and subtract the counters of a processor field by field.
wherryProcessorStats& operator+=(wherryProcessorStats& sum, const wherryProcessorStats& more);
wherryProcessorStats operator-(const wherryProcessorStats& now, const wherryProcessorStats& before);

std::uint64_t faults(const wherryProcessorStats& work);

struct PhaseTotals {
  std::chrono::nanoseconds time{};
  std::vector<wherryProcessorStats> work;  // [0] the host, [1 + d] device d

  wherryProcessorStats sum() const;
};

class PhaseRecorder {
 public:
  explicit PhaseRecorder(const runtime& library);

  // Ends the current phase, if any, and begins `phase`. A phase may be entered any number of times.
  void enter(Phase phase);
  void leave();

  const PhaseTotals& totals(Phase phase) const { return totals_[index(phase)]; }
  PhaseTotals all() const;

 private:
  static std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }
  void close(std::chrono::steady_clock::time_point now, const wherryStats& stats);

  const runtime& library_;
  std::array<PhaseTotals, all_phases.size()> totals_;
  std::optional<Phase> current_;
  std::chrono::steady_clock::time_point entered_;
  wherryStats stats_at_entry_{};
};

}  // namespace wherry::tool
