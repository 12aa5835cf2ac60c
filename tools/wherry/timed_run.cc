#include "timed_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "bench_report.h"

namespace wherry::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The process groups that run, for the signal handler; 0 for none. The first is the program's, the
// second its client's.
std::array<std::atomic<pid_t>, 2> running{};

void end_all(int signal) {
  for (const auto& group : running)
    if (group != 0) ::kill(-group, SIGKILL);
  // SA_RESETHAND has restored the action that ends this process.
  ::raise(signal);
}

void end_all_when_ended() {
  struct sigaction action {};
  action.sa_handler = end_all;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// A process in a group of its own. The destructor kills the group if it still runs.
class GroupLeader {
 public:
  GroupLeader(const std::vector<std::string>& words, const fs::path& folder,
              const std::string& prefix, std::atomic<pid_t>& slot)
      : slot_(slot) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addchdir_np(&files, folder.c_str());
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    constexpr int fresh = O_WRONLY | O_CREAT | O_TRUNC;
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, (prefix + "stdout").c_str(), fresh,
                                       0600);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, (prefix + "stderr").c_str(), fresh,
                                       0600);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int error =
        ::posix_spawnp(&process_, arguments[0], &files, &attributes, arguments.data(), ::environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    if (error != 0) fail(error, "cannot start " + words[0]);
    slot_ = process_;
  }
  ~GroupLeader() {
    if (process_ < 0) return;
    kill();
    double ignored = 0;
    (void)code(ignored);
  }
  GroupLeader(const GroupLeader&) = delete;
  GroupLeader& operator=(const GroupLeader&) = delete;

  // Returns false if the process still runs at that time.
  bool ends_until(Clock::time_point end) const {
    const int file = static_cast<int>(::syscall(SYS_pidfd_open, process_, 0));
    if (file < 0) fail(errno, "cannot wait for a program");
    int ready = 0;
    do {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd wait{file, POLLIN, 0};
      ready = ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    } while (ready < 0 && errno == EINTR);
    ::close(file);
    return ready > 0;
  }
  int code(double& cpu_seconds) {
    int status = 0;
    rusage usage{};
    while (::wait4(process_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    cpu_seconds += seconds(usage.ru_utime) + seconds(usage.ru_stime);
    slot_ = 0;
    process_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  void kill() { ::kill(-process_, SIGKILL); }

 private:
  std::atomic<pid_t>& slot_;
  pid_t process_ = -1;
};

}  // namespace

TimedRun run_timed(const std::vector<std::string>& program, const std::vector<std::string>& client,
                   const fs::path& folder, std::chrono::seconds limit) {
  end_all_when_ended();
  TimedRun run;
  const auto finish = [&](GroupLeader& leader, Clock::time_point end) {
    run.timed_out = run.timed_out || !leader.ends_until(end);
    if (run.timed_out) leader.kill();
    return leader.code(run.cpu_seconds);
  };
  run.seconds = seconds_of([&] {
    const auto end = Clock::now() + limit;
    GroupLeader leader(program, folder, client.empty() ? "" : "server-", running[0]);
    int client_code = 0;
    if (!client.empty()) {
      GroupLeader other(client, folder, "", running[1]);
      client_code = finish(other, end);
    }
    run.code = finish(leader, end);
    if (run.code == 0) run.code = client_code;
  });
  return run;
}

}  // namespace wherry::tool
