#include "output.h"

namespace wherry::tool {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= piece_bytes) flush();
}

int Output::end() {
  flush();
  return status_;
}

void Output::flush() {
  if (status_ == exit_ok) status_ = print_to(file_, buffer_);
  buffer_.clear();
}

}  // namespace wherry::tool
