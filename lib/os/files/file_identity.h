// Which file something is, whatever stands at its path by now.
#pragma once

#include <cstdint>

struct stat;

namespace wherry::impl {

// As /proc/PID/maps has it.
struct FileIdentity {
  std::uint64_t device = 0;  // major << 32 | minor
  std::uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& status);
// Of what a descriptor leads to. Throws std::system_error.
FileIdentity identify_file(int fd);

}  // namespace wherry::impl
