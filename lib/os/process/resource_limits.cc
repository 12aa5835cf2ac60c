#include "os/process/resource_limits.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/page.h"

namespace wherry::impl {
namespace {

std::uint64_t soft_limit(int kind) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(kind), &limit) != 0) return unlimited;
  return limit.rlim_cur == RLIM_INFINITY ? unlimited : limit.rlim_cur;
}

}  // namespace

std::uint64_t file_size_limit() {
  return soft_limit(RLIMIT_FSIZE);
}

std::uint64_t address_space_limit() {
  return soft_limit(RLIMIT_AS);
}

std::uint64_t descriptors_limit() {
  return soft_limit(RLIMIT_NOFILE);
}

std::uint64_t address_space_in_use() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "re"),
                                                   std::fclose);
  unsigned long long pages = 0;
  return file && std::fscanf(file.get(), "%llu", &pages) == 1 ? pages * page_size : 0;
}

int set_file_size(int fd, std::size_t bytes) {
  if (bytes > file_size_limit()) return EFBIG;
  return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

std::string limits_in_force() {
  constexpr struct {
    int kind;
    const char* name;
    const char* option;
    bool is_size;
  } kinds[] = {
      {RLIMIT_AS, "RLIMIT_AS", "-v", true},        {RLIMIT_DATA, "RLIMIT_DATA", "-d", true},
      {RLIMIT_FSIZE, "RLIMIT_FSIZE", "-f", true},  {RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "-l", true},
      {RLIMIT_NPROC, "RLIMIT_NPROC", "-u", false}, {RLIMIT_NOFILE, "RLIMIT_NOFILE", "-n", false}};
  std::string text;
  for (const auto& kind : kinds) {
    const std::uint64_t limit = soft_limit(kind.kind);
    if (limit == unlimited) continue;
    text += fmt::format("{}{} (ulimit {}) is {}", text.empty() ? "" : ", ", kind.name, kind.option,
                        kind.is_size ? size_text(limit) : std::to_string(limit));
  }
  return text;
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* suffixes[] = {"", "K", "M", "G"};
  unsigned unit = 0;
  while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + suffixes[unit];
}

}  // namespace wherry::impl
