#include "record.h"

#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "complain.h"

namespace wherry::tool {
namespace {

constexpr int exit_not_found = 127;
constexpr int exit_not_runnable = 126;
constexpr int exit_of_signal = 128;

// Which file has the name now: another one once the trace has been begun.
struct Found {
  ino_t inode;
  std::uint64_t bytes;
};
std::optional<Found> look_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Found{found.st_ino, static_cast<std::uint64_t>(found.st_size)};
}

// The terminal's keys are for the program, which gets them as if it had been started without us.
class IgnoredKeys {
 public:
  IgnoredKeys() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &interrupt_);
    ::sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~IgnoredKeys() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGQUIT, &quit_, nullptr);
  }
  IgnoredKeys(const IgnoredKeys&) = delete;
  IgnoredKeys& operator=(const IgnoredKeys&) = delete;

  // Those that we have only ignored for ourselves.
  sigset_t defaults() const {
    sigset_t set;
    ::sigemptyset(&set);
    if (interrupt_.sa_handler != SIG_IGN) ::sigaddset(&set, SIGINT);
    if (quit_.sa_handler != SIG_IGN) ::sigaddset(&set, SIGQUIT);
    return set;
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

// Its process, or minus an errno.
pid_t start(const std::vector<std::string>& program, const sigset_t& defaults) {
  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawnattr_init(&attributes)) return -error;
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t process = -1;
  const int error =
      ::posix_spawnp(&process, arguments[0], nullptr, &attributes, arguments.data(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  return error == 0 ? process : -error;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return complain(std::string("cannot wait: ") + std::strerror(errno));
  return WIFSIGNALED(status) ? exit_of_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* record = app.add_subcommand("record", "Run a program and write a trace of its events");
  record->add_option("-o,--output", options.file, "The trace; an older one is replaced")
      ->type_name("FILE")
      ->capture_default_str();
  record->add_option("program", options.program, "-- PROGRAM ARGS...")->type_name("")->required();
  return record;
}

int run_record(const RecordOptions& options) {
  // The program may change its folder before it begins.
  const std::string path = std::filesystem::absolute(options.file);
  const auto before = look_at(path);
  ::setenv("WHERRY_TRACE", path.c_str(), 1);
  const IgnoredKeys ignored;
  const pid_t process = start(options.program, ignored.defaults());
  if (process < 0) {
    complain(fmt::format("{}: {}", options.program[0], std::strerror(-process)));
    return process == -ENOENT ? exit_not_found : exit_not_runnable;
  }
  const int code = wait_for(process);
  const auto after = look_at(path);
  if (!after || (before && before->inode == after->inode))
    complain(fmt::format("no trace: {} did not begin to use the library, or could not write {}",
                         options.program[0], options.file));
  else
    complain(fmt::format("the trace is in {}, {} bytes (wherry trace {})", options.file,
                         after->bytes, options.file));
  return code;
}

}  // namespace wherry::tool
