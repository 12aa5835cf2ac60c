// The durations of the steps of a fault on a machine, as measured by `wherry calibrate`; a replay
// adds them up. docs/replay.md describes the file. No clock and no files: converts from and to
// text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace wherry::replay {

// The cost of an operation on several pages at once.
struct OperationCost {
  double fixed_ns = 0;
  double page_ns = 0;

  double of(std::uint64_t pages) const {
    return pages == 0 ? 0 : fixed_ns + page_ns * static_cast<double>(pages);
  }
};

// One measurement of an operation.
struct CostSample {
  unsigned pages = 0;
  double ns = 0;
};
// The cost with the smallest relative errors for all samples, so that it fits small page counts as
// well as large ones.
OperationCost fit(std::span<const CostSample> samples);

// Costs of operations as part of a fault: from the fault message to just before the wake.
struct CostModel {
  OperationCost populate_host;      // first accesses by the host
  OperationCost populate_device;    // first accesses by a device
  OperationCost migrate_to_host;    // pages that are on a device
  OperationCost migrate_to_device;  // pages that are at the host or on another device
  OperationCost duplicate;          // a read-only copy
  OperationCost remote_map;         // a remote mapping
  // A fault on a page whose page table entry alone was missing.
  double minor_ns = 0;
  // A write that removes the other copies.
  double collapse_ns = 0;
  // An eviction, for each page.
  double evict_page_ns = 0;
  double prefetch_page_ns = 0;
  // The rest of the time that the faulting thread waits: the trap before, and the wake-up after.
  double round_trip_host_ns = 0;
  double round_trip_device_ns = 0;
  // A read of a whole page in the processor's own pool, and in another one.
  double read_local_page_ns = 0;
  double read_remote_page_ns = 0;
  std::string machine;  // where it was measured
};

std::string to_json(const CostModel& model);

// Returns one line with the error unless all numbers are present, finite, and not negative.
std::variant<CostModel, std::string> parse_cost_model(std::string_view json);

}  // namespace wherry::replay
