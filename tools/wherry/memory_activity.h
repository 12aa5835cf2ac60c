// What happened to which memory of a program, by the names that the program gave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program_status.h"

namespace wherry::tool {

// Memory of one name, or several names that share blocks of 2 MiB: a program counts by blocks, so
// what happened to each of them is unknown.
struct MemoryActivity {
  std::vector<std::string> names;  // empty: the program gave none
  std::uint64_t address = 0;       // the lowest
  std::uint64_t bytes = 0;         // named ones, or of the blocks without a name
  std::uint64_t faults = 0;
  std::uint64_t moved_bytes = 0;  // that came to a pool, as moves or copies
  std::uint64_t evicted_bytes = 0;

  // What the program waited for: the bytes, and for each fault a page more.
  std::uint64_t weight() const;
};

// What happened in each block between two moments. Both are ordered by number.
std::vector<BlockStatus> difference(const std::vector<BlockStatus>& before,
                                    const std::vector<BlockStatus>& now);

// Assigns the blocks to the named memory of `status`, the heaviest first. Named memory is listed
// even if nothing happened to it. Neighbouring blocks without a name are one row.
std::vector<MemoryActivity> by_memory(const ProgramStatus& status,
                                      const std::vector<BlockStatus>& blocks);

// The names, or the address if there are none; not longer than `most` bytes.
std::string label_of(const MemoryActivity& memory, std::size_t most);

}  // namespace wherry::tool
