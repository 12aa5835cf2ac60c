// Runs a program with fewer rights than this machine would give it, so that a test suite can run as
// it would elsewhere: without any privilege, or under a container's seccomp profile that forbids
// system calls that Wherry would use.
//
// Usage: confine [--reach FOLDER]... [--user] [--refuse-userfaultfd eperm|kill] [--refuse-io-uring]
//        [--refuse-memory-policies] PROGRAM ARGUMENT...
//   --reach FOLDER        the folder stays accessible to the user
//   --user                root becomes nobody, without capabilities; other users stay. userfaultfd
//                         is restricted to user-mode-only
//   --refuse-userfaultfd  the system call fails with EPERM, or kills its process
//   --refuse-io-uring     its system calls fail with EPERM
//   --refuse-memory-policies
//                         get_mempolicy, set_mempolicy, mbind and move_pages fail with EPERM, as
//                         under the seccomp profile of Docker
// The process then executes PROGRAM, and keeps its id. It prints to stderr what PROGRAM may do. If
// this machine cannot confine it, it exits with 77 and prints the reason behind "SKIP: ".
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "confine/reach.h"
#include "support/seccomp_filter.h"

namespace wherry::test {
namespace {

namespace fs = std::filesystem;

constexpr int exit_misused = 2;
constexpr int exit_skipped = 77;

[[noreturn]] void refused(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Options {
  std::vector<fs::path> reach;
  bool user = false;
  std::optional<FilterAction> userfaultfd;
  bool io_uring = true;
  bool memory_policies = true;
  char** command = nullptr;
};

std::optional<Options> parse(char** words) {
  Options options;
  for (++words; *words != nullptr && (*words)[0] == '-'; ++words) {
    const std::string_view word = *words;
    if (word == "--user") {
      options.user = true;
    } else if (word == "--refuse-io-uring") {
      options.io_uring = false;
    } else if (word == "--refuse-memory-policies") {
      options.memory_policies = false;
    } else if (word == "--reach" && words[1] != nullptr) {
      options.reach.emplace_back(*++words);
    } else if (word == "--refuse-userfaultfd" && words[1] != nullptr) {
      const std::string_view action = *++words;
      if (action != "eperm" && action != "kill") return {};
      options.userfaultfd = action == "kill" ? FilterAction::kill : FilterAction::refuse_eperm;
    } else {
      return {};
    }
  }
  if (*words == nullptr) return {};
  options.command = words;
  return options;
}

User nobody() {
  const passwd* entry = ::getpwnam("nobody");
  return entry != nullptr ? User{entry->pw_uid, entry->pw_gid} : User{65534, 65534};
}

// The first of the folders to reach and of the files that the command names that the user may not
// use.
std::optional<fs::path> first_closed(User user, const Options& options) {
  for (const fs::path& folder : options.reach) {
    if (!can_reach(user, folder)) return folder;
  }
  for (char** word = options.command; *word != nullptr; ++word) {
    if (fs::path(*word).is_absolute() && fs::exists(*word) && !can_reach(user, *word)) return *word;
  }
  return {};
}

void open_all(User user, const Options& options) {
  const fs::path here = fs::current_path();
  try {
    make_reachable(user, options.reach);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string{error.what()} +
                             "; put the clone into a folder that every user may enter");
  }
  fs::current_path(here);  // through the new mount
  if (const auto closed = first_closed(user, options)) {
    throw std::runtime_error(closed->string() + " is closed to others; chmod -R go+rX opens it");
  }
}

void become(User user, const Options& options) {
  if (::setgroups(0, nullptr) != 0) refused("cannot leave the groups");
  if (first_closed(user, options)) open_all(user, options);
  if (::setresgid(user.group, user.group, user.group) != 0 ||
      ::setresuid(user.id, user.id, user.id) != 0)
    refused("cannot become nobody");
  // Root's own folders are closed to other users.
  ::setenv("HOME", "/tmp", 1);
  ::setenv("TMPDIR", "/tmp", 1);
}

// Drops capabilities of every kind, also those that an ordinary user may have been given.
void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capset, &header, none) != 0) refused("cannot drop capabilities");
}

void forbid(const Options& options) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) refused("cannot renounce privileges");
  if (options.user) leave_user_mode_only_userfaultfd();
  if (options.userfaultfd) forbid_system_call(SYS_userfaultfd, *options.userfaultfd);
  if (!options.io_uring) {
    for (const long number : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register})
      forbid_system_call(number, FilterAction::refuse_eperm);
  }
  if (!options.memory_policies) {
    for (const long number : {SYS_get_mempolicy, SYS_set_mempolicy, SYS_mbind, SYS_move_pages})
      forbid_system_call(number, FilterAction::refuse_eperm);
  }
}

// What Linux allows now. A child process tries it, because the call may end the process.
const char* userfaultfd_to_be_had() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_DUMPABLE, 0);  // no core dump of an expected signal
    const auto opens = [](int flags) { return ::syscall(SYS_userfaultfd, O_CLOEXEC | flags) >= 0; };
    ::_exit(opens(0) ? 0 : opens(UFFD_USER_MODE_ONLY) ? 1 : 2);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return "unknown";
  if (WIFSIGNALED(status)) return "kills";
  return WEXITSTATUS(status) == 0   ? "serves system calls, too"
         : WEXITSTATUS(status) == 1 ? "user-mode-only"
                                    : "refused";
}

int run(char** words) {
  const auto options = parse(words);
  if (!options) {
    std::fprintf(stderr,
                 "usage: confine [--reach FOLDER]... [--user] [--refuse-userfaultfd eperm|kill] "
                 "[--refuse-io-uring] [--refuse-memory-policies] PROGRAM ARGUMENT...\n");
    return exit_misused;
  }
  try {
    if (options->user && ::geteuid() == 0) become(nobody(), *options);
    if (options->user) drop_capabilities();
    forbid(*options);
  } catch (const std::exception& error) {
    std::printf("SKIP: cannot be confined: %s\n", error.what());
    return exit_skipped;
  }
  std::fprintf(stderr, "confined: user %d, userfaultfd %s, io_uring %s, memory policies %s\n",
               static_cast<int>(::geteuid()), userfaultfd_to_be_had(),
               options->io_uring ? "untouched" : "refused",
               options->memory_policies ? "untouched" : "refused");
  ::execvp(options->command[0], options->command);
  std::fprintf(stderr, "confine: %s: %s\n", options->command[0], std::strerror(errno));
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace wherry::test

int main(int, char** words) {
  return wherry::test::run(words);
}
