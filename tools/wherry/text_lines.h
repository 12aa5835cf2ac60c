// Reads the lines and words of other programs' text files. An error has the number of its line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "progress.h"

namespace wherry::tool {

struct TextError {
  std::uint64_t line = 0;  // 0: the error concerns the whole file (it cannot be opened or read)
  std::string reason;
};

// "FILE:LINE: reason", or "FILE: reason" if the error concerns the whole file.
std::string describe(const std::string& path, const TextError& error);

// What fail() throws. The public functions of a reader catch it and return the error.
struct MalformedText {
  TextError error;
};
[[noreturn]] void fail(std::uint64_t line, std::string reason);

// Lines of a stream, numbered from 1, of bounded length. Shows its progress (progress.h).
class LineReader {
 public:
  explicit LineReader(std::FILE* stream);

  // The latest line's number.
  std::uint64_t number() const { return number_; }
  // The next line without its line end, valid until the next call. nullopt at the end of the file.
  // Fails if it cannot be read, or is too long.
  std::optional<std::string_view> next();

 private:
  void show_progress();

  std::FILE* const stream_;
  std::uint64_t bytes_ = 0;  // of the file; 0: unknown
  Progress progress_;
  std::string line_;
  std::uint64_t number_ = 0;
};

// The text without blanks at its ends.
std::string_view trimmed(std::string_view text);
// Removes the first word from `text` and returns it; empty if there is none. Blanks are spaces and
// tabs.
std::string_view take_word(std::string_view& text);
bool is_blank(std::string_view text);

// Makes a word of the file short and printable for an error message.
std::string quote(std::string_view word);

// Returns nullopt unless the whole word is a number to this base.
std::optional<std::uint64_t> to_integer(std::string_view word, int base = 10);

}  // namespace wherry::tool
