// The open descriptors of the calling process and their files.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace wherry::test {

// The open descriptors below 1024.
std::set<int> open_descriptors();

// The target of the descriptor's link in /proc/self/fd, such as "/memfd:NAME (deleted)"; empty if
// the descriptor is not open.
std::string file_of_descriptor(int fd);

// Opens the descriptor's file again for reading and writing: a second open file description. The
// caller owns the returned descriptor, which is closed on exec. Throws std::runtime_error.
int reopen(int fd);

// The size of the memory or disk space that the file uses (st_blocks). Throws std::runtime_error.
std::uint64_t allocated_bytes(int fd);

}  // namespace wherry::test
