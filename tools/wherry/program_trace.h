// The trace of a program that the tool starts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "started_program.h"

namespace wherry::tool {

class ProgramTrace {
 public:
  // Tests whether the trace can be written, and sets WHERRY_TRACE for the program. `file`: a
  // pattern, see trace/trace_name.h. Otherwise prints why not, and that the program was not run,
  // and returns nullopt.
  static std::optional<ProgramTrace> begin(const std::string& file, const std::string& program);

  // Prints whether the trace is missing or a part is lost; if it is `kept`, also where it is, and
  // whether it is whole. Returns the program's exit code, or exit_failed if the program ended with
  // 0 but a part of the trace is lost.
  int report(pid_t process, const StartedProgram::End& end, bool kept) const;
  // The file of the trace that this process wrote, or nullopt.
  std::optional<std::string> written_by(pid_t process) const;

  // A file with the trace's name. A program that begins a trace replaces it: the inode changes.
  struct Found {
    ino_t inode;
    std::uint64_t bytes;
  };

 private:
  // The file, if this process wrote it.
  std::optional<Found> find(pid_t process) const;

  ProgramTrace(std::string file, std::string pattern, std::string program,
               std::optional<Found> before)
      : file_(std::move(file)),
        pattern_(std::move(pattern)),
        program_(std::move(program)),
        before_(before) {}

  std::string file_;     // as the user named it
  std::string pattern_;  // `file_` as an absolute path
  std::string program_;
  std::optional<Found> before_;
};

}  // namespace wherry::tool
