#include "os/process/other_process.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

namespace wherry::impl {
namespace {

// In /proc/PID/stat the third word is the state, the 20th the number of threads, and the 22nd the
// start time. The second word is the program's name in parentheses; the name may contain any
// characters, including spaces and parentheses.
constexpr int state_word = 3;
constexpr int threads_word = 20;
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

bool parse(std::string_view word, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && !word.empty();
}

// Linux's information on a process, which may be a zombie.
struct Listed {
  ProcessIdentity identity;
  bool has_ended = false;
  int error = 0;  // like FoundProcess::error
};

// Reads /proc/PID/stat. Returns a negative value and sets errno on failure.
ssize_t read_stat(pid_t pid, std::span<char> text) {
  std::array<char, 32> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid);
  const Fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  return file ? ::read(file.get(), text.data(), text.size()) : -1;
}

// The state of the process's first thread. Returns 0 if /proc does not tell. Does not allocate.
char state_of(pid_t pid) {
  // In the /proc of another PID namespace, the number belongs to another process.
  std::array<char, 32> self{};
  if (::readlink("/proc/self", self.data(), self.size() - 1) <= 0 ||
      std::atoi(self.data()) != ::getpid())
    return 0;
  std::array<char, 1024> text;
  const ssize_t got = read_stat(pid, text);
  if (got <= 0) return 0;
  const auto state = word_after_name({text.data(), static_cast<std::size_t>(got)}, state_word);
  return state.size() == 1 ? state.front() : '\0';
}

Listed look_up(pid_t pid) {
  std::array<char, 1024> text;
  const ssize_t got = read_stat(pid, text);
  if (got < 0) return {{}, false, errno == ENOENT ? ESRCH : errno};
  const std::string_view stat(text.data(), static_cast<std::size_t>(got));
  const std::string_view state = word_after_name(stat, state_word);
  Listed listed{{pid, 0}};
  std::uint64_t threads = 0;
  if (!parse(word_after_name(stat, threads_word), threads) ||
      !parse(word_after_name(stat, start_word), listed.identity.start_time))
    return {{}, false, EIO};
  // The state is that of the first thread; other threads may run after it has ended.
  listed.has_ended = (state == "Z" || state == "X") && threads <= 1;
  return listed;
}

}  // namespace

FoundProcess identify_process(pid_t pid) {
  const Listed listed = look_up(pid);
  if (listed.error != 0) return {{}, listed.error};
  return listed.has_ended ? FoundProcess{{}, ESRCH} : FoundProcess{listed.identity, 0};
}

bool is_stopped(pid_t pid) {
  return state_of(pid) == 'T';
}

bool is_delayed_by_linux(pid_t pid) {
  const char state = state_of(pid);
  return state == 'D' || state == 'R';
}

ProcessIdentity own_identity() {
  const Listed own = look_up(::getpid());
  if (own.error != 0) throw_errno(own.error, "cannot read this process's start time from /proc");
  return own.identity;
}

OpenedFile open_file_of(pid_t pid, int descriptor, const FileIdentity& file, int flags) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  // The file is checked before it is opened, because opening a pipe or a terminal may wait or
  // change it.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {Fd(), errno == ESRCH ? ENOENT : errno};
  if (!S_ISREG(status.st_mode) || identity_of(status) != file) return {Fd(), ENOENT};
  OpenedFile opened{Fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK)), 0};
  if (!opened.fd) return {Fd(), errno == ESRCH ? ENOENT : errno};
  // The process may have replaced the descriptor between the check and the open.
  if (identify_file(opened.fd.get()) != file) return {Fd(), ENOENT};
  return opened;
}

}  // namespace wherry::impl
