#include "os/files/huge_tmpfs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "os/files/mount_calls.h"
#include "os/process/helper_call.h"

namespace wherry::impl {
namespace {

// The helper process writes its results here, in this process's memory.
struct Attempt {
  const char* name;
  // The caller's ids, which a process in the new user namespace cannot see.
  uid_t user;
  gid_t group;
  HugeTmpfsFiles made;  // with room for all files: the helper must not allocate
  // The helper process shares this process's descriptors, and opens these. They are members, so
  // that this process closes them if the helper is killed.
  Fd context;
  Fd mount;

  // Notes the next system call's name, which is then known if the call kills the helper.
  void begin(const char* call) { made.refused = call; }
  void fail() { made.error = errno; }
};

void create(Attempt& attempt) {
  expect_to_be_killed();
  attempt.begin("fsopen");
  attempt.context = Fd(::fsopen("tmpfs", FSOPEN_CLOEXEC));
  const int context = attempt.context.get();
  if (context < 0) return attempt.fail();
  const auto set = [&](const char* key, const char* value) {
    return ::fsconfig(context, FSCONFIG_SET_STRING, key, value, 0) == 0;
  };
  attempt.begin("fsconfig");
  // Without "size" a tmpfs holds at most half of the machine's memory; 0 means no limit.
  if (!set("huge", "always") || !set("size", "0") ||
      ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return attempt.fail();
  attempt.begin("fsmount");
  attempt.mount = Fd(::fsmount(context, FSMOUNT_CLOEXEC, 0));
  const int mount = attempt.mount.get();
  if (mount < 0) return attempt.fail();
  attempt.begin("openat");
  for (Fd& file : attempt.made.files) {
    file = Fd(::openat(mount, attempt.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return attempt.fail();
    ::unlinkat(mount, attempt.name, 0);
  }
}

bool write_to(const char* path, std::span<const char> text) {
  const Fd file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Makes the caller the namespace's root. Otherwise the tmpfs would have no owner.
bool map_id(const char* path, unsigned id) {
  std::array<char, 32> line;
  const int length = std::snprintf(line.data(), line.size(), "0 %u 1", id);
  return write_to(path, {line.data(), static_cast<std::size_t>(length)});
}

// create_here() and create_in_namespace() run in a helper process.
void create_here(void* attempt) {
  create(*static_cast<Attempt*>(attempt));
}
void create_in_namespace(void* pointer) {
  Attempt& attempt = *static_cast<Attempt*>(pointer);
  constexpr std::array deny{'d', 'e', 'n', 'y'};  // otherwise Linux refuses a group map
  attempt.begin("a write to /proc/self/uid_map");
  if (!write_to("/proc/self/setgroups", deny) || !map_id("/proc/self/uid_map", attempt.user) ||
      !map_id("/proc/self/gid_map", attempt.group))
    return attempt.fail();
  create(attempt);
}

}  // namespace

HugeTmpfsFiles create_on_huge_tmpfs(const std::string& name, unsigned count) {
  struct Method {
    HugeTmpfsFiles::Way way;
    int namespaces;
    void (*create)(void*);
  };
  constexpr Method methods[] = {
      {HugeTmpfsFiles::Way::own_privilege, 0, create_here},
      {HugeTmpfsFiles::Way::user_namespace, CLONE_NEWUSER | CLONE_NEWNS, create_in_namespace},
  };
  Attempt attempt{name.c_str(), ::geteuid(), ::getegid(), {}, {}, {}};
  HugeTmpfsFiles& made = attempt.made;
  made.files.resize(count);
  for (const Method& method : methods) {
    const HelperEnd end = call_in_helper(CLONE_FILES | method.namespaces, method.create, &attempt);
    if (made.files.back()) {
      made.way = method.way;
      return std::move(made);
    }
    if (end.start_error != 0) {
      made.refused = "clone";
      made.error = end.start_error;
    }
    // A seccomp filter has killed the helper: it may kill the next one, too.
    if (end.killed) made.error = EACCES;
    if (end.killed || made.error != EPERM) break;
  }
  made.files.clear();
  return std::move(made);
}

std::string reason_of(const HugeTmpfsFiles& refused) {
  return fmt::format("{} is refused ({})", refused.refused, std::strerror(refused.error));
}

}  // namespace wherry::impl
