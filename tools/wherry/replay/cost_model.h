// What the steps of a fault take on a machine, as `wherry calibrate` measured them: what a replay
// adds up. The file is described in docs/replay.md. No clock, no files: text in, text out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace wherry::replay {

// Of an operation on several pages at once.
struct OperationCost {
  double fixed_ns = 0;
  double page_ns = 0;

  double of(std::uint64_t pages) const {
    return pages == 0 ? 0 : fixed_ns + page_ns * static_cast<double>(pages);
  }
};

// What was measured of it.
struct CostSample {
  unsigned pages = 0;
  double ns = 0;
};
// The costs that come closest to all samples, each held against its own size: of few pages they are
// as right as of many.
OperationCost fit(std::span<const CostSample> samples);

// Operations are as faults have them done: from the fault's message to just before the wake.
struct CostModel {
  OperationCost populate_host;      // first touches
  OperationCost populate_device;    // ... by a device
  OperationCost migrate_to_host;    // pages that are on a device
  OperationCost migrate_to_device;  // ... elsewhere
  OperationCost duplicate;          // a read-only copy
  OperationCost remote_map;         // pages that stay where they are
  double minor_ns = 0;              // nothing but an entry of the page table was missing
  double collapse_ns = 0;           // a write ends the other copies
  double evict_page_ns = 0;         // for each page that had to leave
  double prefetch_page_ns = 0;
  // What the thread waits for around that: the trap before, and its wake-up after.
  double round_trip_host_ns = 0;
  double round_trip_device_ns = 0;
  // To read all of a page, in one's own pool and in another's.
  double read_local_page_ns = 0;
  double read_remote_page_ns = 0;
  std::string machine;  // where that was measured
};

std::string to_json(const CostModel& model);

// A string: one line that says what is wrong. All numbers have to be there, finite, and not
// negative.
std::variant<CostModel, std::string> parse_cost_model(std::string_view json);

}  // namespace wherry::replay
