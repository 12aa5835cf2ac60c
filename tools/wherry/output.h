// Text on stdout or stderr, written piece by piece, so that a report need not fit into memory.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "complain.h"

namespace wherry::tool {

class Output {
 public:
  explicit Output(std::FILE* file = stdout) : file_(file) {}

  // After the first write error, which is reported, all text is dropped.
  void write(std::string_view text);
  // Writes what is still buffered. Returns exit_ok, or exit_failed if a write failed.
  int end();

 private:
  void flush();

  std::FILE* const file_;
  std::string buffer_;
  int status_ = exit_ok;
};

}  // namespace wherry::tool
