// Lets another user reach folders that lie where it may not go, as a clone under /root: at the same
// absolute paths, for this process and what it starts only.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace wherry::test {

struct User {
  uid_t id = 0;
  gid_t group = 0;
};

// Whether the user may read `path` (of a folder: and enter it), and may enter all of the folders
// above. Requires root.
bool can_reach(User user, const std::filesystem::path& path);

// Makes `folders` reachable for the user, in a mount namespace of this process's own. Where the
// file system can do it, what belongs to their owner belongs to the user there. Requires root and a
// single thread. Throws std::system_error where mounts are refused.
void make_reachable(User user, const std::vector<std::filesystem::path>& folders);

}  // namespace wherry::test
