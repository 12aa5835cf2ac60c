// Makes folders accessible to another user that lie where it may not go, such as a clone under
// /root: at the same absolute paths, and only for this process and its children.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace wherry::test {

struct User {
  uid_t id = 0;
  gid_t group = 0;
};

// Whether the user may read `path` (for a folder: also enter it), and may enter all folders above
// it. Requires root.
bool can_reach(User user, const std::filesystem::path& path);

// Makes `folders` accessible to the user, in a mount namespace of this process. If the file system
// supports it, files of the folders' owner belong to the user there. Requires root and a single
// thread. Throws std::system_error if mounts are refused.
void make_reachable(User user, const std::vector<std::filesystem::path>& folders);

}  // namespace wherry::test
