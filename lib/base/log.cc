#include "base/log.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/environment.h"
#include "base/render.h"

namespace wherry::impl {
namespace {

std::atomic<std::uint64_t> lost_lines = 0;

// The setting from WHERRY_LOG. It is one word, so that threads load it as a whole, and aligned to
// its size, because clang calls a library for other atomic objects. It has no padding: libstdc++ 13
// and later would clear it in the atomic object's constructor, which would then not be a constant
// expression.
struct alignas(8) Setting {
  LogLevel level = LogLevel::warning;
  bool is_read = false;
  bool is_set = false;  // lines have the time, the process and the level
  std::uint16_t no_padding = 0;
};
constinit std::atomic<Setting> setting{Setting{}};
static_assert(std::atomic<Setting>::is_always_lock_free && sizeof(Setting) == 8 &&
              std::has_unique_object_representations_v<Setting>);

constexpr std::array<std::string_view, 5> level_names{"off", "error", "warning", "info", "debug"};

Setting current_setting() {
  if (!setting.load(std::memory_order_relaxed).is_read) read_log_level();
  return setting.load(std::memory_order_relaxed);
}

// Writes "2026-11-26T07:44:01.123456Z 4711 info: " and returns the number of characters. Does not
// call gmtime_r(), which takes a lock of the C library: a signal handler or a forked child may log.
std::size_t write_stamp(std::span<char> to, LogLevel level) {
  using namespace std::chrono;
  const auto now = floor<microseconds>(system_clock::now());
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  return render(
      to, "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z {} {}: ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
      time.minutes().count(), time.seconds().count(), time.subseconds().count(), ::getpid(),
      level_names[static_cast<std::size_t>(level)]);
}

// Suppresses the SIGPIPE that a write to a pipe without a reader raises in the writing thread. The
// signal stays pending while this object lives; the destructor consumes it.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigemptyset(&pending);
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec now{};
    if (raised_ && !was_pending_) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  void raised() { raised_ = true; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
  bool raised_ = false;
};

bool write_now(const char* text, std::size_t bytes, int patience_ms) {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, patience_ms) <= 0 || (out.revents & POLLNVAL) != 0) return false;
  NoPipeSignal no_signal;
  // Other writers may have filled the pipe or socket since poll(). RWF_NOWAIT keeps the write from
  // waiting. Where Linux does not support RWF_NOWAIT, and for files and terminals, the write relies
  // on poll() alone.
  struct stat about {};
  ssize_t written = -1;
  if (::fstat(STDERR_FILENO, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode))) {
    const iovec line{const_cast<char*>(text), bytes};
    written = ::pwritev2(STDERR_FILENO, &line, 1, -1, RWF_NOWAIT);
    if (written < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
      written = ::write(STDERR_FILENO, text, bytes);
  } else {
    written = ::write(STDERR_FILENO, text, bytes);
  }
  if (written < 0 && errno == EPIPE) no_signal.raised();
  return written >= 0;
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  if (text.empty()) return Setting{}.level;
  const auto* const found = std::find(level_names.begin(), level_names.end(), text);
  if (found == level_names.end()) return std::nullopt;
  return static_cast<LogLevel>(found - level_names.begin());
}

void read_log_level() {
  const char* const value = environment_value("WHERRY_LOG");
  const std::string_view text = value == nullptr ? "" : value;
  const auto level = parse_log_level(text);
  setting.store({level.value_or(Setting{}.level), true, level.has_value() && !text.empty(), 0},
                std::memory_order_relaxed);
}

bool is_logged(LogLevel level) {
  return level <= current_setting().level;
}

void vlog_line(LogLevel level, fmt::string_view format, fmt::format_args values, int patience_ms) {
  const int saved_errno = errno;
  std::array<char, log_line_max> line;
  const std::size_t capacity = line.size() - 1;  // the rest is for the newline
  const std::uint64_t lost = lost_lines.exchange(0);
  std::size_t used = 0;
  const auto rest = [&] { return std::span(line).subspan(used, capacity - used); };
  if (lost != 0)
    used += render(rest(), "wherry: {} earlier {} lost: stderr was full\n", lost,
                   lost == 1 ? "line was" : "lines were");
  used += render(rest(), "wherry: ");
  if (current_setting().is_set) used += write_stamp(rest(), level);
  used += vrender(rest(), format, values);
  line[used++] = '\n';
  if (!write_now(line.data(), used, patience_ms)) lost_lines.fetch_add(lost + 1);
  errno = saved_errno;
}

}  // namespace wherry::impl
