#include "text_lines.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace wherry::tool {
namespace {

constexpr std::size_t longest_line = 65536;
constexpr std::uint64_t lines_between_progress = 4096;

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

}  // namespace

std::string describe(const std::string& path, const TextError& error) {
  return error.line == 0 ? fmt::format("{}: {}", path, error.reason)
                         : fmt::format("{}:{}: {}", path, error.line, error.reason);
}

void fail(std::uint64_t line, std::string reason) {
  throw MalformedText{{line, std::move(reason)}};
}

LineReader::LineReader(std::FILE* stream) : stream_(stream) {
  struct stat status {};
  const int fd = ::fileno(stream);
  if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    bytes_ = static_cast<std::uint64_t>(status.st_size);
}

void LineReader::show_progress() {
  const off_t at = ::ftello(stream_);
  progress_.show_part("reading the file", at < 0 ? 0 : static_cast<std::uint64_t>(at), bytes_);
}

std::optional<std::string_view> LineReader::next() {
  if (number_ % lines_between_progress == 0) show_progress();
  line_.clear();
  int c;
  while ((c = ::getc_unlocked(stream_)) != EOF && c != '\n') {
    if (line_.size() == longest_line)
      fail(number_ + 1, fmt::format("line is longer than {} bytes", longest_line));
    line_.push_back(static_cast<char>(c));
  }
  if (c == EOF && std::ferror(stream_)) fail(0, std::strerror(errno));
  if (c == EOF && line_.empty()) return std::nullopt;
  ++number_;
  if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  return line_;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_word(std::string_view& text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  std::size_t length = 0;
  while (length < text.size() && !is_space(text[length])) ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

bool is_blank(std::string_view text) {
  return take_word(text).empty();
}

std::string quote(std::string_view word) {
  std::string text(word.substr(0, 32));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("'{}{}'", text, word.size() > 32 ? "..." : "");
}

std::optional<std::uint64_t> to_integer(std::string_view word, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace wherry::tool
