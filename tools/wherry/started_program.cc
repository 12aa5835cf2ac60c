#include "started_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "complain.h"
#include "os/files/fd.h"

namespace wherry::tool {
namespace {

constexpr int exit_not_found = 127;
constexpr int exit_not_runnable = 126;
constexpr int exit_of_signal = 128;

// The program's process, for the signal handler; 0 while it does not run.
std::atomic<pid_t> started = 0;

// Passes on signals sent to this process. Linux sends those of the terminal's keys to the program
// itself.
void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (const pid_t process = started; process != 0 && info->si_code != SI_KERNEL)
    ::kill(process, signal);
  errno = saved_errno;
}

constexpr std::array passed_on{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// From now on this process passes on signals and is not ended by them.
void pass_on_signals() {
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : passed_on) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    // A signal that is ignored already, as under nohup, stays ignored in the program.
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

// Undoes pass_on_signals(). To be called in the forked child before it becomes the program.
void pass_on_no_signals() {
  for (const int signal : passed_on) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_sigaction == pass_on) ::signal(signal, SIG_DFL);
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

// A child leaves no exit code if its parent ignores SIGCHLD. So this process does not ignore it;
// the program inherits the setting from before.
class NoticedChildren {
 public:
  NoticedChildren() {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &usual, &before_);
  }
  // Restores the setting from before. To be called in the forked child.
  void restore() const { ::sigaction(SIGCHLD, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// Returns the process id, or a negative errno.
pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> failure{};  // the child writes why it could not become the program
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) return -errno;
  const impl::Fd failed(failure[0]);
  impl::Fd to_parent(failure[1]);
  const NoticedChildren noticed;
  // A signal that arrives now is passed on once the process id is known.
  const BlockedSignals blocked;
  const pid_t process = ::fork();
  if (process < 0) return -errno;
  if (process == 0) {
    noticed.restore();
    pass_on_no_signals();
    ::sigprocmask(SIG_SETMASK, &blocked.before(), nullptr);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!::write(to_parent.get(), &error, sizeof error);
    ::_exit(exit_not_found);
  }
  to_parent.reset();
  int error = 0;
  if (::read(failed.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(process, nullptr, 0);
    return -error;
  }
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
