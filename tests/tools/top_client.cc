// A program for tools/top_test.py to watch. It reads commands from stdin, one a line, and answers
// each with "done": "work" has the device and the host take turns at the memory named "values",
// "free" frees the memory named "passing", "name TEXT" gives it another name, "fork" starts a child
// that waits and prints its number.
#include <unistd.h>
#include <wherry/events.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <wherry/wherry.hpp>

namespace {

constexpr std::size_t count = std::size_t{4} << 20;

void name(const wherry::managed_array<char>& memory, const char* text) {
  wherry::detail::check(wherryNameRange(memory.data(), memory.size(), text), "wherryNameRange");
}

void take_turns(wherry::stream& stream, wherry::managed_array<char>& memory) {
  stream.parallel_for(1, [first = memory.data()](std::size_t) {
    for (std::size_t i = 0; i < count; i += 4096) ++first[i];
  });
  stream.synchronize();
  for (std::size_t i = 0; i < count; i += 4096) ++memory[i];
}

}  // namespace

int main() {
  const wherry::runtime runtime;
  wherry::stream stream(runtime.device(0));
  wherry::managed_array<char> values(count);
  name(values, "values");
  auto passing = std::make_unique<wherry::managed_array<char>>(count);
  name(*passing, "passing");
  std::puts("ready");
  std::fflush(stdout);
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "work") take_turns(stream, values);
    if (command == "free") passing.reset();
    if (command.starts_with("name ")) name(*passing, command.c_str() + 5);
    if (command == "fork") {
      const pid_t child = ::fork();
      if (child == 0) {
        ::pause();
        ::_exit(0);
      }
      std::printf("%d\n", static_cast<int>(child));
    }
    std::puts("done");
    std::fflush(stdout);
  }
}
