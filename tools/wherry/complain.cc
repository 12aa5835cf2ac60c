#include "complain.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "progress.h"

namespace wherry::tool {

int complain(std::string_view what) {
  erase_progress();
  std::string line = "wherry: ";
  for (const char c : what) line += c == '\n' ? ' ' : c;
  line += '\n';
  std::fputs(line.c_str(), stderr);
  return exit_failed;
}

int print_out(std::string_view text) {
  return print_to(stdout, text);
}

int print_to(std::FILE* file, std::string_view text) {
  erase_progress();
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() || std::fflush(file) != 0)
    return complain(std::string("cannot write: ") + std::strerror(errno));
  return exit_ok;
}

}  // namespace wherry::tool
