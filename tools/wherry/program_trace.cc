#include "program_trace.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/mpi_rank.h"
#include "complain.h"
#include "trace/trace_name.h"
#include "trace_file.h"
#include "trial_file.h"

namespace wherry::tool {
namespace {

std::optional<ProgramTrace::Found> look_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return ProgramTrace::Found{found.st_ino, static_cast<std::uint64_t>(found.st_size)};
}

// Where the trace is, and whether it is whole.
std::string state_of(TraceEnding ending, const std::string& file, std::uint64_t bytes,
                     const std::string& program, bool by_signal) {
  const std::string where = fmt::format("the trace is in {}, {} bytes", file, bytes);
  if (ending == TraceEnding::complete) return fmt::format("{} (wherry trace {})", where, file);
  if (by_signal)
    return fmt::format("{}, until the signal that ended {} (wherry trace {})", where, program,
                       file);
  if (ending == TraceEnding::between_chunks)
    return fmt::format(
        "{}; it breaks off where {} ended without its exit handlers, or could not "
        "write any more (wherry trace {})",
        where, program, file);
  return fmt::format(
      "{}; it breaks off: it could not be written to its end, and the events after "
      "that are lost",
      where);
}

// Makes the pattern absolute, because the program may change its working directory before it starts
// the library.
std::string absolute_pattern(const std::string& pattern) {
  if (std::filesystem::path(pattern).is_absolute()) return pattern;
  return impl::trace_pattern_of(std::filesystem::current_path().string() + '/') + pattern;
}

// The name of the trace that this process writes. Requires: the pattern has been checked.
std::string name_for(const std::string& pattern, pid_t process) {
  return std::get<std::string>(
      impl::trace_file_name(pattern, process, impl::mpi_rank().value_or(0)));
}

}  // namespace

std::optional<ProgramTrace> ProgramTrace::begin(const std::string& file,
                                                const std::string& program) {
  const auto refuse = [&](std::string_view why) {
    complain(fmt::format("cannot write {}: {}; {} was not run", file, why, program));
    return std::nullopt;
  };
  const auto named = impl::trace_file_name(file, 0, 0);
  if (const auto* wrong = std::get_if<impl::TraceNameError>(&named)) return refuse(wrong->message);
  const std::string pattern = absolute_pattern(file);
  // If the pattern contains %p, the process id, the program's trace will have another name. A file
  // with the name for this process shows whether the folder can be written to.
  const std::string trial = name_for(pattern, ::getpid());
  if (const int error = try_create_in_place_of(trial))
    return refuse(error == EINVAL ? "it is no regular file" : std::strerror(error));
  ::setenv("WHERRY_TRACE", pattern.c_str(), 1);
  return ProgramTrace(file, pattern, program, look_at(trial));
}

int ProgramTrace::report(pid_t process, const StartedProgram::End& end, bool kept) const {
  const auto found = find(process);
  if (!found) {
    complain(kept ? fmt::format("no trace: {} did not start the library, or could not write {}",
                                program_, name_for(file_, process))
                  : fmt::format("no trace: {} did not start the library", program_));
    return end.code;
  }
  const std::string file = name_for(kept ? file_ : pattern_, process);
  const TraceEnding ending = how_it_ends(file);
  if (kept) complain(state_of(ending, file, found->bytes, program_, end.by_signal));
  const bool lost =
      !end.by_signal && ending != TraceEnding::complete && ending != TraceEnding::between_chunks;
  if (lost && !kept) complain("the trace could not be written to its end: events are lost");
  return end.code == 0 && lost ? exit_failed : end.code;
}

std::optional<std::string> ProgramTrace::written_by(pid_t process) const {
  return find(process) ? std::optional(name_for(pattern_, process)) : std::nullopt;
}

std::optional<ProgramTrace::Found> ProgramTrace::find(pid_t process) const {
  const auto after = look_at(name_for(pattern_, process));
  return before_ && after && before_->inode == after->inode ? std::nullopt : after;
}

}  // namespace wherry::tool
