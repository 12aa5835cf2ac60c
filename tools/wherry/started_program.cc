#include "started_program.h"

#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "complain.h"

namespace wherry::tool {
namespace {

constexpr int exit_not_found = 127;
constexpr int exit_not_runnable = 126;
constexpr int exit_of_signal = 128;

// The program's process, for the signal handler; 0: it does not run.
std::atomic<pid_t> started = 0;

// Signals from the terminal's keys reach the program without help. Signals sent to this process
// only are passed on.
void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (const pid_t process = started; process != 0 && info->si_code != SI_KERNEL)
    ::kill(process, signal);
  errno = saved_errno;
}

// From now on signals meant for the program do not end this process.
void pass_on_signals() {
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    // Already ignored, as under nohup: the program ignores it, too.
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

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
pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
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
  started = process;
  return process;
}

}  // namespace

StartedProgram::StartedProgram(const std::vector<std::string>& words) : name_(words.at(0)) {
  pass_on_signals();
  process_ = start(words);
}

int StartedProgram::complain_of_start() const {
  complain(fmt::format("{}: {}", name_, std::strerror(-process_)));
  return process_ == -ENOENT ? exit_not_found : exit_not_runnable;
}

StartedProgram::End StartedProgram::wait() {
  siginfo_t info{};
  // The process id is not reused before the process is reaped.
  while (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "cannot wait");
  started = 0;
  int status = 0;
  ::waitpid(process_, &status, 0);
  if (WIFSIGNALED(status)) return {exit_of_signal + WTERMSIG(status), true};
  return {WEXITSTATUS(status), false};
}

}  // namespace wherry::tool
