#include "os/process/command_line.h"

#include <algorithm>
#include <fstream>

namespace wherry::impl {

std::string command_line(std::size_t bytes_max) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words(bytes_max + 1, '\0');
  file.read(words.data(), static_cast<std::streamsize>(words.size()));
  words.resize(static_cast<std::size_t>(file.gcount()));
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  if (words.size() > bytes_max) words.replace(bytes_max - 3, std::string::npos, "...");
  return words;
}

}  // namespace wherry::impl
