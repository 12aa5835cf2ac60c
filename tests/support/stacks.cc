#include "support/stacks.h"

#include <cstdio>
#include <filesystem>

#include "support/files.h"

namespace wherry::test {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  ::pclose(pipe);
  return text;
}

}  // namespace

std::string stacks_of(pid_t process) {
  const std::string number = std::to_string(process);
  std::string text = "process " + number + "\n";
  std::error_code ignored;
  for (const auto& thread :
       std::filesystem::directory_iterator{"/proc/" + number + "/task", ignored}) {
    const auto folder = thread.path();
    text += "thread " + folder.filename().string() + " " + contents_of(folder / "comm") +
            "  waits in " + contents_of(folder / "wchan") + ", system call " +
            contents_of(folder / "syscall") + contents_of(folder / "stack");
  }
  return text + output_of("timeout 60 gdb -p " + number +
                          " -batch -nx -ex 'thread apply all bt 20' 2>&1 </dev/null");
}

}  // namespace wherry::test
