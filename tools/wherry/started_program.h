// A program that the tool starts and waits for (`wherry record`, `wherry run`). Signals that would
// end the tool reach the program instead.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace wherry::tool {

// At most one in a process.
class StartedProgram {
 public:
  // Starts the program as execvp() finds it, with the tool's environment.
  explicit StartedProgram(const std::vector<std::string>& words);

  // The process id, or a negative errno if it did not start.
  pid_t process() const { return process_; }
  // Prints why the start failed, and returns the exit code that shells have for that.
  int complain_of_start() const;

  // How the program ended.
  struct End {
    int code = 0;  // in the form of shells
    bool by_signal = false;
  };
  // Requires: it was started. Throws std::system_error.
  End wait();

 private:
  const std::string name_;
  pid_t process_ = -1;
};

}  // namespace wherry::tool
