#include "support/handler_time.h"

#include <dirent.h>
#include <time.h>

#include <fstream>
#include <string>

#include "support/session.h"

namespace wherry::test {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The clock of the CPU time of a thread of this process, as pthread_getcpuclockid() returns it.
clockid_t cpu_clock_of(pid_t thread) {
  constexpr unsigned per_thread = 4, scheduled = 2;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | per_thread | scheduled);
}

}  // namespace

std::uint64_t handler_threads_ns() {
  constexpr const char* tasks = "/proc/self/task";
  std::uint64_t used = 0;
  DIR* const folder = ::opendir(tasks);
  expect(folder != nullptr, "cannot read the list of threads");
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string task = std::string(tasks) + "/" + entry->d_name;
    if (!first_line(task + "/comm").starts_with("wherry-fault")) continue;
    timespec time{};
    expect(::clock_gettime(cpu_clock_of(std::stoi(entry->d_name)), &time) == 0, "no CPU time");
    used += static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
            static_cast<std::uint64_t>(time.tv_nsec);
  }
  ::closedir(folder);
  return used;
}

}  // namespace wherry::test
