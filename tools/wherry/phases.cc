#include "phases.h"

#include <algorithm>

namespace wherry::tool {

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::assemble:
      return "assemble";
    case Phase::exchange:
      return "exchange";
    case Phase::multiply:
      return "multiply";
    case Phase::vectors:
      return "vectors";
    case Phase::check:
      return "check";
  }
  return "?";
}

wherryProcessorStats& operator+=(wherryProcessorStats& sum, const wherryProcessorStats& more) {
  for (const CounterField& field : counter_fields) sum.*field.value += more.*field.value;
  return sum;
}

wherryProcessorStats operator-(const wherryProcessorStats& now,
                               const wherryProcessorStats& before) {
  wherryProcessorStats difference{};
  for (const CounterField& field : counter_fields)
    difference.*field.value = now.*field.value - before.*field.value;
  return difference;
}

std::uint64_t faults(const wherryProcessorStats& work) {
  return work.faults_missing + work.faults_minor + work.faults_write_protect;
}

wherryProcessorStats PhaseTotals::sum() const {
  wherryProcessorStats total{};
  for (const wherryProcessorStats& one : work) total += one;
  return total;
}

PhaseRecorder::PhaseRecorder(const runtime& library) : library_(library) {
  const auto processors = static_cast<std::size_t>(1 + library.device_count());
  for (PhaseTotals& totals : totals_) totals.work.resize(processors);
}

void PhaseRecorder::enter(Phase phase) {
  const auto now = std::chrono::steady_clock::now();
  const wherryStats stats = library_.stats();
  close(now, stats);
  current_ = phase;
  entered_ = now;
  stats_at_entry_ = stats;
}

void PhaseRecorder::leave() {
  close(std::chrono::steady_clock::now(), library_.stats());
  current_.reset();
}

void PhaseRecorder::close(std::chrono::steady_clock::time_point now, const wherryStats& stats) {
  if (!current_) return;
  PhaseTotals& totals = totals_[index(*current_)];
  totals.time += now - entered_;
  for (std::size_t i = 0; i < totals.work.size(); ++i)
    totals.work[i] += stats.processor[i] - stats_at_entry_.processor[i];
}

PhaseTotals PhaseRecorder::all() const {
  PhaseTotals everything;
  everything.work.resize(totals_.front().work.size());
  for (const PhaseTotals& totals : totals_) {
    everything.time += totals.time;
    for (std::size_t i = 0; i < totals.work.size(); ++i) everything.work[i] += totals.work[i];
  }
  return everything;
}

}  // namespace wherry::tool
