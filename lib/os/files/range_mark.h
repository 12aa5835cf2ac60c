// Marks on ranges of a file by which its users, in all processes, know of each other. The marks are
// locks of the open file description, for which no process waits. So Linux removes them when their
// user ends, however it ends.
#pragma once

#include <cstdint>

namespace wherry::impl {

// Marks these bytes as in use. The mark belongs to the open file description: it lasts until all
// its descriptors are closed and all its mappings are gone, in all processes. Returns 0 or an
// errno: EAGAIN if a process has locked the bytes exclusively.
[[nodiscard]] int mark_range(int fd, std::uint64_t offset, std::uint64_t bytes);

// Whether another open file description has marked any of these bytes.
[[nodiscard]] bool is_range_marked(int fd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace wherry::impl
