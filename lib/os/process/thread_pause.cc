#include "os/process/thread_pause.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "os/files/fd.h"
#include "os/process/futex.h"

namespace wherry::impl {
namespace {

// 1 while the threads wait.
std::atomic<std::uint32_t> paused{0};

int pause_signal() {
  return SIGRTMAX;
}

void wait_until_resumed(int) {
  constexpr int look_ms = 1000;
  const int saved = errno;
  while (paused.load() != 0) futex_wait(paused, 1, look_ms);
  errno = saved;
}

template <typename Visit>
void for_each_thread(const Visit& visit) {
  const Fd tasks(::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tasks) return;
  // Avoids readdir(), which would allocate.
  alignas(dirent64) std::array<char, 4096> buffer;
  for (;;) {
    const long bytes = ::syscall(SYS_getdents64, tasks.get(), buffer.data(), buffer.size());
    if (bytes <= 0) return;
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + at);
      if (const int thread = std::atoi(entry->d_name); thread > 0) visit(pid_t{thread});
      at += entry->d_reclen;
    }
  }
}

}  // namespace

void install_thread_pause() {
  struct sigaction action {};
  action.sa_handler = wait_until_resumed;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  ::sigaction(pause_signal(), &action, nullptr);
}

ThreadPause::ThreadPause(std::span<const pid_t> spared) {
  paused.store(1);
  const pid_t self = ::gettid();
  const pid_t process = ::getpid();
  // Two rounds, because a thread that still ran during the first round may have started another
  // one. A second signal to a stopped thread stays pending; its handler later returns at once.
  for (int round = 0; round < 2; ++round)
    for_each_thread([&](pid_t thread) {
      if (thread != self && std::ranges::find(spared, thread) == spared.end())
        ::syscall(SYS_tgkill, process, thread, pause_signal());
    });
}

ThreadPause::~ThreadPause() {
  paused.store(0);
  futex_wake(paused, INT_MAX);
}

}  // namespace wherry::impl
