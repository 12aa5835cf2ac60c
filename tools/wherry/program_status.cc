#include "program_status.h"

#include <dirent.h>
#include <fmt/core.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <system_error>

#include "base/clock.h"
#include "base/page.h"
#include "os/files/file_io.h"
#include "os/process/other_process.h"

namespace wherry::tool {
namespace {

using impl::BlockActivity;
using impl::Fd;
using impl::StatusHeader;
using impl::StatusMemory;

constexpr int names_attempts = 8;

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

Folder open_folder(const std::string& path) {
  return {::opendir(path.c_str()), ::closedir};
}

std::optional<pid_t> number_of(const char* name) {
  pid_t number = 0;
  const char* const end = name + std::strlen(name);
  const auto [rest, error] = std::from_chars(name, end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// Replaces characters that a terminal takes for commands, because the program chooses the text: the
// control characters of ASCII, and U+0080 to U+009F, in UTF-8 or as single bytes.
std::string printable(std::string_view text) {
  constexpr unsigned char lead_of_controls = 0xc2;
  const auto is_c1 = [](unsigned char c) { return c >= 0x80 && c < 0xa0; };
  std::string result;
  unsigned char last = 0;
  for (const char letter : text.substr(0, text.find('\0'))) {
    const auto c = static_cast<unsigned char>(letter);
    const bool begins_character = last < 0x80;
    const bool is_control =
        c < ' ' || c == 0x7f || (is_c1(c) && (begins_character || last == lead_of_controls));
    result += is_control ? '?' : letter;
    last = c;
  }
  return result;
}

template <std::size_t Bytes>
std::string text_of(const std::array<char, Bytes>& text) {
  return printable({text.data(), Bytes});
}

std::string program_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return printable(name);
}

// Copies from a memory file of another process with read(2), because accesses through a mapping
// would allocate memory for the file's holes.
template <typename Value, std::size_t Count>
bool read_values(const Fd& file, std::uint64_t offset, std::span<Value, Count> values) {
  return impl::read_at(file.get(), offset, std::as_writable_bytes(values)) ==
         static_cast<int>(values.size_bytes());
}

// The status file that the process has open. If there is none, errno is 0 or says why the process's
// files cannot be seen.
Fd open_status(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  const std::string wanted = fmt::format("/memfd:{} (deleted)", impl::status_name);
  const Folder folder = open_folder(path);
  if (!folder) return Fd();
  while (const dirent* const entry = ::readdir(folder.get())) {
    std::array<char, 64> target;
    const ssize_t length =
        ::readlinkat(::dirfd(folder.get()), entry->d_name, target.data(), target.size());
    if (length < 0 || std::string_view(target.data(), static_cast<std::size_t>(length)) != wanted)
      continue;
    Fd file(::openat(::dirfd(folder.get()), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file) return file;
  }
  errno = 0;
  return Fd();
}

bool exists(pid_t pid) {
  return impl::identify_process(pid).error == 0;
}

std::string user_name(uid_t user) {
  const passwd* const entry = ::getpwuid(user);
  return entry == nullptr ? fmt::format("user {}", user) : std::string(entry->pw_name);
}

std::string why_not_open(pid_t pid, int error) {
  const std::string who = fmt::format("process {} ({})", pid, program_of(pid));
  struct stat status {};
  if (!exists(pid) || ::stat(fmt::format("/proc/{}", pid).c_str(), &status) != 0)
    return fmt::format("there is no process {}", pid);
  if (error == 0) return fmt::format("{} does not use Wherry, or has not called cuInit yet", who);
  if (error != EACCES && error != EPERM)
    return fmt::format("cannot see the files of {}: {}", who, std::strerror(error));
  if (status.st_uid == ::geteuid() || ::geteuid() == 0)
    return fmt::format("Linux does not let this process see the files of {}", who);
  const std::string owner = user_name(status.st_uid);
  return fmt::format("{} belongs to {}: run wherry top as {}{}", who, owner, owner,
                     status.st_uid == 0 ? "" : " or as root");
}

std::uint64_t value_of(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

PoolStatus pool_of(const impl::ShownProcessor& about, const impl::ProcessorStatus& status) {
  const impl::Counters& counters = status.counters;
  PoolStatus pool{about, value_of(status.reserved_pages) * impl::page_size, {}};
  std::size_t next = 0;
#define WHERRY_READ(name) pool.counters[next++] = value_of(counters.name);
  WHERRY_PROCESSOR_COUNTERS(WHERRY_READ)
  WHERRY_LATER_PROCESSOR_COUNTERS(WHERRY_READ)
  WHERRY_SUMMED_COUNTERS(WHERRY_READ)
#undef WHERRY_READ
  return pool;
}

// Blocks are read a page at a time, because the file consists of pages and holes.
constexpr std::size_t blocks_at_once = impl::page_size / sizeof(BlockActivity);

}  // namespace

std::variant<StatusReader, std::string> StatusReader::open(pid_t pid) {
  // The pidfd comes first: what is found later belongs to this process, even if its number is
  // reused.
  Fd end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!end) {
    const int error = errno;
    if (error == ESRCH) return fmt::format("there is no process {}", pid);
    // Linux returns these for a thread that is not the first one of its process.
    if (error == EINVAL || error == ENOENT)
      return fmt::format("{} is a thread, not a process", pid);
    return fmt::format("cannot watch process {}: {}", pid, std::strerror(error));
  }
  Fd file = open_status(pid);
  if (!file) return why_not_open(pid, errno);
  StatusHeader header;
  if (!read_values(file, 0, std::span(&header, 1)) || value_of(header.mark) != impl::status_mark)
    return fmt::format("process {} is just starting: try again", pid);
  if (header.format != impl::status_format || header.processors == 0 ||
      header.processors > impl::max_processors)
    return fmt::format("process {} uses Wherry {}, and this is {}: use the wherry of its version",
                       pid, text_of(header.version), WHERRY_VERSION);
  return StatusReader(pid, std::move(end), std::move(file), header.processors);
}

bool StatusReader::has_ended() const {
  pollfd wait{end_.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

bool StatusReader::is_shown() const {
  const Fd current = open_status(pid_);
  struct stat ours {
  }, its{};
  return current && ::fstat(file_.get(), &ours) == 0 && ::fstat(current.get(), &its) == 0 &&
         ours.st_ino == its.st_ino;
}

std::optional<ProgramStatus> StatusReader::read() const {
  StatusHeader header;
  std::array<impl::ProcessorStatus, impl::max_processors> processors;
  if (!read_values(file_, 0, std::span(&header, 1)) ||
      !read_values(file_, offsetof(StatusMemory, processors), std::span(processors)))
    return std::nullopt;
  ProgramStatus status;
  status.pid = pid_;
  status.time_ns = impl::now_ns();
  status.start_ns = std::min(header.start_ns, status.time_ns);
  status.program = program_of(pid_);
  status.stopped = impl::is_stopped(pid_);
  status.version = text_of(header.version);
  status.trap = text_of(header.trap);
  status.policy = text_of(header.policy);
  status.policy_in_force = text_of(header.policy_in_force);
  status.arena_base = header.arena_base;
  status.variables_from = header.variables_from;
  status.names_left_out = value_of(header.names_left_out);
  for (std::uint32_t i = 0; i < processors_; ++i)
    status.pools.push_back(pool_of(header.about[i], processors[i]));
  read_names(status);
  read_blocks(status, header.blocks);
  // Checked last: otherwise the program might have ended, or begun another one with exec, while it
  // was read.
  if (has_ended() || !is_shown()) return std::nullopt;
  return status;
}

void StatusReader::read_names(ProgramStatus& status) const {
  std::vector<impl::ShownName> names;
  // A program that is stopped while it changes a name does not finish. After some attempts its
  // names are taken as they are.
  for (int attempt = 0; attempt < names_attempts; ++attempt) {
    StatusHeader before, after;
    if (!read_values(file_, 0, std::span(&before, 1))) return;
    names.resize(std::min<std::uint64_t>(value_of(before.name_slots), impl::shown_names_max));
    // The three reads keep their order; pairs with the program's fences (memory/status_board.cc).
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read_values(file_, offsetof(StatusMemory, names), std::span(names))) return;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read_values(file_, 0, std::span(&after, 1))) return;
    const std::uint64_t changes = value_of(before.name_changes);
    if (changes % 2 == 0 && changes == value_of(after.name_changes)) break;
  }
  for (const impl::ShownName& name : names)
    if (name.bytes != 0)
      status.names.push_back({name.address, name.bytes, name.offset, text_of(name.text)});
  std::ranges::sort(status.names, {}, &NamedMemory::offset);
}

void StatusReader::read_blocks(ProgramStatus& status, std::uint64_t count) const {
  std::array<BlockActivity, blocks_at_once> some;
  const auto begin = static_cast<off_t>(sizeof(StatusMemory));
  for (off_t at = begin;;) {
    // Skips holes, of which most of the file consists.
    at = ::lseek(file_.get(), at, SEEK_DATA);
    if (at < 0) return;
    const std::uint64_t first =
        static_cast<std::uint64_t>(std::max(at, begin) - begin) / sizeof(BlockActivity);
    if (first >= count) return;
    const std::size_t length = std::min<std::uint64_t>(some.size(), count - first);
    if (!read_values(file_, impl::status_bytes(first), std::span(some).first(length))) return;
    for (std::size_t i = 0; i < length; ++i) {
      const BlockStatus block{first + i, value_of(some[i].faults), value_of(some[i].arrived),
                              value_of(some[i].evicted)};
      if (block.faults + block.arrived + block.evicted != 0) status.blocks.push_back(block);
    }
    at = static_cast<off_t>(impl::status_bytes(first + length));
  }
}

std::vector<pid_t> programs_with_status() {
  std::vector<pid_t> found;
  const Folder folder = open_folder("/proc");
  while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr) {
    const auto pid = number_of(entry->d_name);
    if (pid && std::holds_alternative<StatusReader>(StatusReader::open(*pid)))
      found.push_back(*pid);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace wherry::tool
