#include "confine/reach.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

namespace wherry::test {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refused(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Opens files as this user during its lifetime.
class ActAs {
 public:
  explicit ActAs(User user) {
    if (::setegid(user.group) != 0 || ::seteuid(user.id) != 0)
      refused("cannot act as another user");
  }
  ~ActAs() {
    if (::seteuid(0) != 0 || ::setegid(0) != 0) std::terminate();
  }
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
};

bool is_allowed(const fs::path& path, int access) {
  return ::faccessat(AT_FDCWD, path.c_str(), access, AT_EACCESS) == 0;
}

// The first of the folders on the way to `place` that the user may not enter.
std::optional<fs::path> first_barrier(User user, const fs::path& place) {
  const ActAs act(user);
  fs::path folder;
  for (const fs::path& name : place) {
    folder /= name;
    if (!is_allowed(folder, X_OK) && errno == EACCES) return folder;
  }
  return {};
}

// Creates a user namespace that maps `owner`, as stored on disk, to `user`. Returns -1 if that is
// not possible.
int map_owner(User owner, User user) {
  int ready[2], done[2];
  if (::pipe2(ready, O_CLOEXEC) != 0 || ::pipe2(done, O_CLOEXEC) != 0) refused("pipe2");
  const pid_t holder = ::fork();
  if (holder < 0) refused("fork");
  if (holder == 0) {
    ::close(done[1]);
    char byte = 0;
    const bool made = ::unshare(CLONE_NEWUSER) == 0 && ::write(ready[1], &byte, 1) == 1;
    ::_exit(made && ::read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(ready[1]);
  ::close(done[0]);
  int user_namespace = -1;
  if (char byte; ::read(ready[0], &byte, 1) == 1) {
    const fs::path process = "/proc/" + std::to_string(holder);
    std::ofstream(process / "uid_map") << owner.id << ' ' << user.id << " 1";
    std::ofstream(process / "gid_map") << owner.group << ' ' << user.group << " 1";
    user_namespace = ::open((process / "ns/user").c_str(), O_RDONLY | O_CLOEXEC);
  }
  ::close(ready[0]);
  ::close(done[1]);
  ::waitpid(holder, nullptr, 0);
  return user_namespace;
}

// A copy of the mount at `place`, not attached anywhere yet.
int copy_mount(User user, const fs::path& place) {
  struct stat folder {};
  if (::stat(place.c_str(), &folder) != 0) refused(place);
  const int tree = ::open_tree(AT_FDCWD, place.c_str(),
                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | unsigned{AT_RECURSIVE});
  if (tree < 0) refused("cannot copy the mount of " + place.string());
  const int owners = map_owner({folder.st_uid, folder.st_gid}, user);
  if (owners >= 0) {
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_IDMAP;
    attributes.userns_fd = static_cast<std::uint64_t>(owners);
    (void)::mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes);
    ::close(owners);
  }
  return tree;
}

}  // namespace

bool can_reach(User user, const fs::path& path) {
  const int access = fs::is_directory(path) ? R_OK | X_OK : R_OK;
  const ActAs act(user);
  return is_allowed(path, access);
}

void make_reachable(User user, const std::vector<fs::path>& folders) {
  if (::unshare(CLONE_NEWNS) != 0) refused("cannot have a mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    refused("cannot make mounts private");

  struct Copy {
    fs::path place;
    int mount;
  };
  std::vector<Copy> copies;  // made before any of them is covered
  for (const fs::path& folder : folders) {
    const fs::path place = fs::canonical(folder);
    copies.push_back({place, copy_mount(user, place)});
  }
  const mode_t former_mask = ::umask(022);
  for (const auto& [place, mount] : copies) {
    if (const auto barrier = first_barrier(user, place.parent_path())) {
      if (::mount("confine", barrier->c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") !=
          0)
        refused("cannot cover " + barrier->string());
    }
    fs::create_directories(place);
    if (::move_mount(mount, "", AT_FDCWD, place.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
      refused("cannot mount " + place.string());
    ::close(mount);
  }
  ::umask(former_mask);
}

}  // namespace wherry::test
