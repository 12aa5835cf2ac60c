// Text on stdout, written piece by piece, so that a report need not fit memory.
#pragma once

#include <string>
#include <string_view>

#include "complain.h"

namespace wherry::tool {

class Output {
 public:
  // What cannot be written is complained about once, and everything after it is dropped.
  void write(std::string_view text);
  // Writes what is left. Returns exit_ok, or exit_failed if something could not be written.
  int end();

 private:
  void flush();

  std::string buffer_;
  int status_ = exit_ok;
};

}  // namespace wherry::tool
