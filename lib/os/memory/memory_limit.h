// The memory that control groups (cgroups, version 1 and 2) permit this process: the tightest limit
// of its group and of all groups above. Pools count like all other memory, whatever their NUMA
// node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace wherry::impl {

struct MemoryLimit {
  std::uint64_t bytes = 0;      // for all processes of the group together
  std::uint64_t available = 0;  // what is not in use now, plus what Linux can drop: cached files
  std::string file;             // the file that contains the limit
};

// Returns nullopt if there is no limit. `root`: a prefix of /proc and of the folders that it names;
// empty except in tests.
std::optional<MemoryLimit> read_memory_limit(const std::string& root = "");

// How many bytes this process may allocate now before Linux has to swap or to end a process: what
// the machine has left (MemAvailable), or less where control groups permit less. Returns 0 if Linux
// does not report it.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace wherry::impl
