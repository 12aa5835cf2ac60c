// How fast the CPUs of each node read the memory of each node, as `wherry calibrate` has measured
// it. The firmware's distances are ratios of latencies, and often not even measured: the memory of
// an HBM node may count as farther away than the CPUs' own and still be several times as fast.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "os/memory/numa.h"

namespace wherry::impl {

class NodeSpeeds {
 public:
  // All CPUs of node `cpus` together read the memory of node `memory` with so many bytes a second.
  void set(int cpus, int memory, double bytes_per_second) {
    speeds_[{cpus, memory}] = bytes_per_second;
  }
  // The speed in bytes a second; nullopt if it was not measured.
  std::optional<double> of(int cpus, int memory) const;
  bool empty() const { return speeds_.empty(); }
  // All speeds, in the order of (cpus, memory).
  const std::map<std::pair<int, int>, double>& all() const { return speeds_; }

 private:
  std::map<std::pair<int, int>, double> speeds_;
};

// A machine's nodes and the memory of each. Speeds are valid for machines of the same shape, so a
// cluster's machines of one kind may share a file.
std::string shape_of(const Machine& machine);

// The contents of the file. `shape`: of the machine on which the speeds were measured.
std::string to_text(const NodeSpeeds& speeds, const std::string& shape);
// Returns a line that says why if the text has no speeds for a machine of this shape.
std::variant<NodeSpeeds, std::string> parse_node_speeds(std::string_view text,
                                                        const std::string& shape);

// The file's path in the user's cache folder; empty if there is no folder.
std::string node_speeds_file();

struct KeptSpeeds {
  NodeSpeeds speeds;   // empty: Linux's distances are used
  std::string source;  // where they come from, or why there are none; one line
};
// Reads the file at each call. Any thread may call. Throws std::bad_alloc.
KeptSpeeds read_node_speeds();

}  // namespace wherry::impl
