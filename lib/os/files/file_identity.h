// Identifies a file, independent of what is at its path by now.
#pragma once

#include <cstdint>

struct stat;

namespace wherry::impl {

// The identity that /proc/PID/maps shows.
struct FileIdentity {
  std::uint64_t device = 0;  // major << 32 | minor
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& status);
// The identity of the file behind a descriptor. Throws std::system_error.
FileIdentity identify_file(int fd);

}  // namespace wherry::impl
