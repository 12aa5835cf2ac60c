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

  // The first write error is reported; everything after it is dropped.
  void write(std::string_view text);
  // Writes the rest. Returns exit_ok, or exit_failed if a write failed.
  int end();

 private:
  void flush();

  std::FILE* const file_;
  std::string buffer_;
  int status_ = exit_ok;
};

}  // namespace wherry::tool
