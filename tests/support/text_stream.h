// A text as a stream, for readers of files.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "support/catch.h"

namespace wherry::test {

using TextStream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// `text` must outlive the stream.
inline TextStream stream_of(std::string& text) {
  // fmemopen refuses an empty buffer.
  TextStream stream(
      text.empty() ? std::fopen("/dev/null", "r") : ::fmemopen(text.data(), text.size(), "r"),
      &std::fclose);
  REQUIRE(stream != nullptr);
  return stream;
}

}  // namespace wherry::test
