#include "io/served_call.h"

#include <cstring>

namespace wherry::io {
namespace {

// The length of the text with its final zero, or of its part in managed memory.
std::size_t text_bytes(const Used& used) {
  const std::size_t managed = managed_bytes(used.start, used.bytes);
  const std::size_t length = ::strnlen(static_cast<const char*>(used.start), managed);
  return std::min(length + 1, managed);
}

}  // namespace

bool prepare_used(std::initializer_list<Used> used) {
  bool managed = false;
  for (const Used& each : used) {
    if (!each.may_be_managed()) continue;
    managed |= prepare(each.start, each.is_text ? text_bytes(each) : each.bytes, each.access);
  }
  return managed;
}

}  // namespace wherry::io
