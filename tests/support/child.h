// Runs part of a test in a process of its own: to get a fresh library or another topology, or
// because the process is expected to die. The process's output and result are returned as a value.
// No process outlives its time limit.
//
// A line of the library that only a defect can cause (support/defects.py) is also printed by this
// process, whatever the test expects: the test then fails.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

namespace wherry::test {

struct Outcome {
  int exit_code = -1;      // -1: it did not exit by itself
  int signal = 0;          // the signal that ended it; 0: none
  bool timed_out = false;  // it was killed at its time limit
  bool closed = false;     // its stdout and stderr were closed, so none of its processes is left
  std::string out;
  std::string err;

  bool passed() const { return exit_code == 0 && !timed_out; }
  // All fields, for messages.
  std::string describe() const;
};

// The first line in the text that only a defect of the library can cause; empty if there is none.
std::string_view defect_in(std::string_view text);

// A running child process. Requires, because of fork(): no other threads, and the library is not
// initialized.
class Child {
 public:
  // Runs `body` in the new process, which then exits with 0, or with 70 and the message on stderr
  // if `body` throws. The process leads a process group of its own.
  explicit Child(const std::function<void()>& body);
  ~Child();  // kills it if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Reads its stdout up to the next newline, and returns the text without it. Throws
  // std::runtime_error if no newline arrives within `limit_ms`.
  std::string read_line(int limit_ms = 20'000);
  // Reads its output for about `limit_ms`. Returns false once it has ended.
  bool runs_on(int limit_ms);
  // Kills it and all processes of its group.
  void kill_group();
  // Waits for its end, and up to five seconds more for its output to close.
  Outcome wait(int limit_ms = 60'000);

 private:
  bool read_some(int limit_ms);
  void notice_end();

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Outcome outcome_;
};

// For a fresh process: runs `body` in a child that is PID 1 of a new PID namespace, then exits.
// Throws if the child fails. If no namespace can be made, prints why and returns.
void as_first_process(const std::function<void()>& body);

Outcome in_fresh_process(const std::function<void()>& body, int limit_ms = 60'000);

}  // namespace wherry::test
