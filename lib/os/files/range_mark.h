// Marks on ranges of a file by which those who have it in use know of each other, whichever
// processes they are. The kernel keeps them, and takes them away when the user ends, however it
// ends: they are locks of the open file description that nobody waits for.
#pragma once

#include <cstdint>

namespace wherry::impl {

// Marks these bytes as in use. The mark is the open file description's: it is there until all its
// descriptors are closed and all its mappings are gone, in all processes. Returns 0 or an errno:
// EAGAIN, somebody has locked the bytes for himself.
[[nodiscard]] int mark_range(int fd, std::uint64_t offset, std::uint64_t bytes);

// Whether another open file description has marked any of them.
[[nodiscard]] bool is_range_marked(int fd, std::uint64_t offset, std::uint64_t bytes);

}  // namespace wherry::impl
