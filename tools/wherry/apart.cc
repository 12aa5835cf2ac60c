#include "apart.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <system_error>
#include <vector>

namespace wherry::tool {
namespace {

// The first byte of the child's message.
constexpr char is_result = 'r';
constexpr char is_reason = 'x';

[[noreturn]] void answer(int to, char kind, const void* data, std::size_t bytes) {
  std::string message(1, kind);
  message.append(static_cast<const char*>(data), bytes);
  std::size_t sent = 0;
  while (sent < message.size()) {
    const ssize_t some = ::write(to, message.data() + sent, message.size() - sent);
    if (some < 0) ::_exit(1);
    sent += static_cast<std::size_t>(some);
  }
  ::_exit(0);
}

[[noreturn]] void do_work(const std::function<void()>& work, const void* result, std::size_t bytes,
                          int to) {
  std::string reason;
  try {
    work();
  } catch (const std::exception& failure) {
    reason = failure.what();
  }
  if (reason.empty()) answer(to, is_result, result, bytes);
  answer(to, is_reason, reason.data(), reason.size());
}

// Reads until the other end is closed. Returns false after the time limit.
bool read_all(int from, std::string& message, int limit_ms) {
  pollfd waiting{from, POLLIN, 0};
  char some[4096];
  while (::poll(&waiting, 1, limit_ms) == 1) {
    const ssize_t count = ::read(from, some, sizeof some);
    if (count <= 0) return true;
    message.append(some, static_cast<std::size_t>(count));
  }
  return false;
}

}  // namespace

std::string run_apart(const std::function<void()>& work, void* result, std::size_t bytes,
                      int limit_ms) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    do_work(work, result, bytes, ends[1]);
  }
  const int error = errno;
  ::close(ends[1]);
  std::string message;
  const bool ended = child > 0 && read_all(ends[0], message, limit_ms);
  ::close(ends[0]);
  if (child < 0) throw std::system_error(error, std::generic_category(), "fork");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (!ended) return "it does not end";
  if (message.empty()) return "its process ended";
  if (message[0] == is_reason) return message.substr(1);
  if (message.size() != 1 + bytes) return "its process ended";
  message.copy(static_cast<char*>(result), bytes, 1);
  return {};
}

}  // namespace wherry::tool
