#include "support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <system_error>

namespace wherry::test {
namespace {

constexpr int exit_threw = 70;
constexpr int limit_to_close_ms = 5'000;

using Clock = std::chrono::steady_clock;

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? static_cast<int>(left.count()) : 0;
}

// Appends the available bytes. Returns false at the end of the file.
bool append_available(int fd, std::string& text) {
  char buffer[4096];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  return got != 0;
}

[[noreturn]] void run_and_exit(const std::function<void()>& body) {
  int code = 0;
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    code = exit_threw;
  }
  std::exit(code);
}

}  // namespace

std::string Outcome::describe() const {
  return "exit code " + std::to_string(exit_code) + ", signal " + std::to_string(signal) +
         (timed_out ? ", timed out" : "") + (closed ? "" : ", output still open") +
         "\nstdout: " + out + "\nstderr: " + err;
}

Child::Child(const std::function<void()>& body) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe2");
  std::cout.flush();
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG,
            SIGKILL);  // a test that is killed leaves no process behind
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    // Catch2 replaces fatal signals with its own report; the tests need the signals.
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM})
      ::signal(signal, SIG_DFL);
    run_and_exit(body);
  }
  ::setpgid(pid_, pid_);  // parent and child both call it, because either may run first
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Child::~Child() {
  for (const std::string& text : {outcome_.out, outcome_.err})
    if (const std::string_view line = defect_in(text); !line.empty())
      std::fprintf(stderr, "in a child process: %s\n", line.data());
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

// Reads output for at most `limit_ms`. Returns false when both streams have ended.
bool Child::read_some(int limit_ms) {
  pollfd polled[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (out_ < 0 && err_ < 0) return false;
  if (::poll(polled, 2, limit_ms) < 0 && errno != EINTR)
    throw std::system_error(errno, std::generic_category(), "poll");
  const auto take = [](const pollfd& ready, int& fd, std::string& text) {
    if (fd < 0 || ready.revents == 0 || append_available(fd, text)) return;
    ::close(fd);
    fd = -1;
  };
  take(polled[0], out_, outcome_.out);
  take(polled[1], err_, outcome_.err);
  return true;
}

std::string Child::read_line(int limit_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds{limit_ms};
  for (;;) {
    if (const auto end = outcome_.out.find('\n'); end != std::string::npos) {
      const std::string line = outcome_.out.substr(0, end);
      outcome_.out.erase(0, end + 1);
      return line;
    }
    if (Clock::now() >= deadline || !read_some(milliseconds_until(deadline)))
      throw std::runtime_error("no line was written; " + outcome_.describe());
  }
}

void Child::notice_end() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  if (WIFEXITED(status)) outcome_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
  pid_ = -1;
}

bool Child::runs_on(int limit_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds{limit_ms};
  do {
    if (!read_some(std::min(5, limit_ms))) ::poll(nullptr, 0, 1);
    notice_end();
  } while (pid_ > 0 && Clock::now() < deadline);
  return pid_ > 0;
}

void Child::kill_group() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

std::string_view defect_in(std::string_view text) {
  for (const std::string_view line : {"the page never came free"})
    if (text.find(line) != text.npos) return line;
  return {};
}

Outcome Child::wait(int limit_ms) {
  auto deadline = Clock::now() + std::chrono::milliseconds{limit_ms};
  while (runs_on(5)) {
    if (outcome_.timed_out || Clock::now() < deadline) continue;
    outcome_.timed_out = true;
    ::kill(pid_, SIGKILL);
  }
  deadline = Clock::now() + std::chrono::milliseconds{limit_to_close_ms};
  while (read_some(5) && Clock::now() < deadline) {
  }
  outcome_.closed = out_ < 0 && err_ < 0;
  return outcome_;
}

Outcome in_fresh_process(const std::function<void()>& body, int limit_ms) {
  Child child{body};
  return child.wait(limit_ms);
}

void as_first_process(const std::function<void()>& body) {
  if (::unshare(CLONE_NEWPID) != 0) {
    std::printf("SKIP: not allowed to make a PID namespace\n");
    return;
  }
  const pid_t first = ::fork();
  if (first == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "FAILED in PID %d: %s\n", ::getpid(), error.what());
      ::_exit(exit_threw);
    }
    std::fflush(nullptr);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(first, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error("the first process failed");
  // Skips exit handlers: the namespace's PID 1 has ended, so a leak checker could no longer fork.
  ::_exit(0);
}

}  // namespace wherry::test
