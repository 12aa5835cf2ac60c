// Counts faults, moves and evictions by the names that a program gave to its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program_status.h"

namespace wherry::tool {

// Memory of one name, or of several names that share a block (2 MiB): a program counts by blocks,
// so the counts of each name alone are unknown.
struct MemoryActivity {
  std::vector<std::string> names;  // empty if the program gave none
  std::uint64_t address = 0;       // the lowest
  std::uint64_t bytes = 0;         // of the named memory, or of the blocks
  std::uint64_t faults = 0;
  std::uint64_t moved_bytes = 0;  // that came to a pool, as moves or copies
  std::uint64_t evicted_bytes = 0;

  // A measure, in bytes, of what the program waited for: the bytes that came or were evicted, and a
  // page for each fault.
  std::uint64_t weight() const;
};

// Returns what happened in each block between two moments. Both are ordered by block.
std::vector<BlockStatus> difference(const std::vector<BlockStatus>& before,
                                    const std::vector<BlockStatus>& now);

// Assigns the blocks to the named memory of `status`, the heaviest first. Named memory is listed
// even if nothing happened to it. Neighbouring blocks without a name are one row.
std::vector<MemoryActivity> by_memory(const ProgramStatus& status,
                                      const std::vector<BlockStatus>& blocks);

// The names, or the address if there are none; not longer than `most` bytes.
std::string label_of(const MemoryActivity& memory, std::size_t most);

}  // namespace wherry::tool
