#include "os/other_process.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <charconv>
#include <string>
#include <string_view>

namespace wherry::impl {
namespace {

// /proc/PID/stat has the state as its third word, and the moment of the start as its 22nd. The second one is the program's name
// in parentheses, which may have anything in it.
constexpr int state_word = 3;
constexpr int start_word = 22;

std::string_view word_after_name(std::string_view stat, int number) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return {};
  stat.remove_prefix(name_end + 1);
  for (int word = state_word;; ++word) {
    const auto start = stat.find_first_not_of(' ');
    if (start == std::string_view::npos) return {};
    stat.remove_prefix(start);
    const std::string_view found = stat.substr(0, stat.find(' '));
    if (word == number) return found;
    stat.remove_prefix(found.size());
  }
}

}  // namespace

std::optional<ProcessIdentity> identify_process(pid_t pid) {
  const Fd file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file ? ::read(file.get(), text, sizeof text) : -1;
  if (got <= 0) return std::nullopt;
  const std::string_view stat(text, static_cast<std::size_t>(got));
  const std::string_view state = word_after_name(stat, state_word);
  if (state.empty() || state == "Z" || state == "X") return std::nullopt;
  const std::string_view start = word_after_name(stat, start_word);
  ProcessIdentity identity{pid, 0};
  const auto [end, error] =
      std::from_chars(start.data(), start.data() + start.size(), identity.start_time);
  return error == std::errc() && !start.empty() ? std::optional(identity) : std::nullopt;
}

ProcessIdentity own_identity() {
  const auto identity = identify_process(::getpid());
  if (!identity) throw_errno(ENOENT, "/proc does not tell when this process started");
  return *identity;
}

OpenedFile open_file_of(pid_t pid, int descriptor, const FileIdentity& file, int flags) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  // Looked at before it is opened: to open a pipe or a terminal may wait, or change it.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {Fd(), errno};
  if (!S_ISREG(status.st_mode) || identity_of(status) != file) return {Fd(), ENOENT};
  OpenedFile opened{Fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK)), 0};
  if (!opened.fd) return {Fd(), errno};
  // The process may have put another one there meanwhile.
  if (identify_file(opened.fd.get()) != file) return {Fd(), ENOENT};
  return opened;
}

}  // namespace wherry::impl
