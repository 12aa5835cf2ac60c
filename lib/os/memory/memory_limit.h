// What control groups (cgroups, version 1 and 2) permit this process of the machine's memory: the
// tightest limit of its group and of the groups above. Pools count like all other memory, wherever
// their NUMA node is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace wherry::impl {

struct MemoryLimit {
  std::uint64_t bytes = 0;  // of all processes of the group together
  std::uint64_t available =
      0;             // what none of them uses now, with what Linux can drop: cached files
  std::string file;  // where the limit was read
};

// Nothing: there is no limit. `root` is what stands before /proc and before the folders that it
// names: empty but in tests.
std::optional<MemoryLimit> read_memory_limit(const std::string& root = "");

}  // namespace wherry::impl
