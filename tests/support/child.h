// Runs part of a test in a process of its own: a fresh library, a topology of its own, or an end
// that only a process can have. What the process wrote and how it ended comes back as a value. No
// process outlives its limit.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace wherry::test {

struct Outcome {
  int exit_code = -1;      // -1: it did not exit by itself
  int signal = 0;          // that ended it; 0: none
  bool timed_out = false;  // it was killed by us
  bool closed = false;     // nobody holds its stdout and stderr any more: no process of its is left
  std::string out;
  std::string err;

  bool passed() const { return exit_code == 0 && !timed_out; }
  // Everything above, for messages.
  std::string describe() const;
};

// A forked process that is running. Requires, as fork() does for this: no other threads, no
// initialized library.
class Child {
 public:
  // Runs `body` in the new process; it then exits with 0, or with 70 and the message on stderr when
  // `body` throws. The process leads a process group of its own.
  explicit Child(const std::function<void()>& body);
  ~Child();  // kills it if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Reads its stdout up to and without the next newline. Throws std::runtime_error when none comes
  // within `limit_ms`.
  std::string read_line(int limit_ms = 20'000);
  // Takes in what it writes, for about `limit_ms`; false once it has ended.
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

// For a fresh process: runs `body` in a child that is PID 1 of a namespace of its own, then ends.
// Throws if the child fails; prints why, and returns, where no namespace can be made.
void as_first_process(const std::function<void()>& body);

Outcome in_fresh_process(const std::function<void()>& body, int limit_ms = 60'000);

}  // namespace wherry::test
