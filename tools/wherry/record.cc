#include "record.h"

#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <variant>

#include "base/mpi_rank.h"
#include "complain.h"
#include "trace/trace_name.h"
#include "trace_file.h"
#include "trial_file.h"

namespace wherry::tool {
namespace {

constexpr int exit_not_found = 127;
constexpr int exit_not_runnable = 126;
constexpr int exit_of_signal = 128;

// The file that has this name now. It has another inode number once the program has begun a trace.
struct Found {
  ino_t inode;
  std::uint64_t bytes;
};
std::optional<Found> look_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Found{found.st_ino, static_cast<std::uint64_t>(found.st_size)};
}

// The program's process, for the signal handler; 0: it does not run.
std::atomic<pid_t> running = 0;

// Signals from the terminal's keys reach the program without help. Signals sent to this process
// only are passed on.
void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (const pid_t process = running; process != 0 && info->si_code != SI_KERNEL)
    ::kill(process, signal);
  errno = saved_errno;
}

// While it lives, signals meant for the program do not end this process.
class PassedOnSignals {
 public:
  PassedOnSignals() {
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO;
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
      struct sigaction before {};
      ::sigaction(signal, nullptr, &before);
      // Already ignored, as under nohup: the program ignores it, too.
      if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
    }
  }
};

// Blocks all signals during its lifetime.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

// Returns the process id, or a negative errno.
pid_t start(const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // A signal that arrives now is passed on once the process id is known.
  const BlockedSignals blocked;
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawnattr_init(&attributes)) return -error;
  ::posix_spawnattr_setsigmask(&attributes, &blocked.before());
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = -1;
  const int error =
      ::posix_spawnp(&process, arguments[0], nullptr, &attributes, arguments.data(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return -error;
  running = process;
  return process;
}

// How the program ended.
struct End {
  int code = 0;  // in the form of shells
  bool by_signal = false;
};
End wait_for(pid_t process) {
  siginfo_t info{};
  // The process id is not reused before the process is reaped.
  while (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "cannot wait");
  running = 0;
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFSIGNALED(status)) return {exit_of_signal + WTERMSIG(status), true};
  return {WEXITSTATUS(status), false};
}

// Reports the state of the trace. Returns false if a part of it was lost for a reason other than
// the program's own end.
bool report_trace(const std::string& file, std::uint64_t bytes, const std::string& program,
                  bool by_signal) {
  const TraceEnding ending = how_it_ends(file);
  const std::string where = fmt::format("the trace is in {}, {} bytes", file, bytes);
  if (ending == TraceEnding::complete) {
    complain(fmt::format("{} (wherry trace {})", where, file));
    return true;
  }
  if (by_signal) {
    complain(
        fmt::format("{}, until the signal that ended {} (wherry trace {})", where, program, file));
    return true;
  }
  if (ending == TraceEnding::between_chunks) {
    complain(
        fmt::format("{}; it breaks off where {} ended without its exit handlers, or could not "
                    "write any more (wherry trace {})",
                    where, program, file));
    return true;
  }
  complain(
      fmt::format("{}; it breaks off: it could not be written to its end, and the events after "
                  "that are lost",
                  where));
  return false;
}

// The pattern with the working directory before it, because the program may change its own before
// it starts the library.
std::string absolute_pattern(const std::string& pattern) {
  if (std::filesystem::path(pattern).is_absolute()) return pattern;
  return impl::trace_pattern_of(std::filesystem::current_path().string() + '/') + pattern;
}

// The name of the trace that this process writes. Requires: the pattern has been checked.
std::string name_for(const std::string& pattern, pid_t process) {
  return std::get<std::string>(
      impl::trace_file_name(pattern, process, impl::mpi_rank().value_or(0)));
}

}  // namespace

CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* record = app.add_subcommand("record", "Run a program and write a trace of its events");
  record
      ->add_option(
          "-o,--output", options.file,
          "The trace; an older one is replaced; %p: the program's process id, %r: its MPI rank")
      ->type_name("FILE")
      ->capture_default_str();
  record->add_option("program", options.program, "-- PROGRAM ARGS...")->type_name("")->required();
  return record;
}

int run_record(const RecordOptions& options) {
  const auto refuse = [&](std::string_view why) {
    complain(
        fmt::format("cannot write {}: {}; {} was not run", options.file, why, options.program[0]));
    return exit_usage;
  };
  const auto named = impl::trace_file_name(options.file, 0, 0);
  if (const auto* wrong = std::get_if<impl::TraceNameError>(&named)) return refuse(wrong->message);
  const std::string pattern = absolute_pattern(options.file);
  // With %p in the pattern this is not the program's file, but one in the same folder.
  const std::string trial = name_for(pattern, ::getpid());
  if (const int error = try_create_in_place_of(trial))
    return refuse(error == EINVAL ? "it is no regular file" : std::strerror(error));
  const auto before = look_at(trial);
  ::setenv("WHERRY_TRACE", pattern.c_str(), 1);
  const PassedOnSignals passed_on;
  const pid_t process = start(options.program);
  if (process < 0) {
    complain(fmt::format("{}: {}", options.program[0], std::strerror(-process)));
    return process == -ENOENT ? exit_not_found : exit_not_runnable;
  }
  const End end = wait_for(process);
  const std::string file = name_for(options.file, process);
  const auto after = look_at(name_for(pattern, process));
  if (!after || (before && before->inode == after->inode)) {
    complain(fmt::format("no trace: {} did not start the library, or could not write {}",
                         options.program[0], file));
    return end.code;
  }
  const bool whole = report_trace(file, after->bytes, options.program[0], end.by_signal);
  return end.code == 0 && !whole ? exit_failed : end.code;
}

}  // namespace wherry::tool
