#include "matrix_market.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>

namespace wherry::tool {
namespace {

constexpr std::size_t longest_line = 65536;  // the specification allows 1024
constexpr std::uint64_t most_rows = std::numeric_limits<std::int32_t>::max();

// Thrown and caught inside this file only; the public functions return the error.
struct Malformed {
  MatrixMarketError error;
};

[[noreturn]] void fail(std::uint64_t line, std::string reason) {
  throw Malformed{{line, std::move(reason)}};
}

// Lines of a stream, numbered from 1, of bounded length.
class LineReader {
 public:
  explicit LineReader(std::FILE* stream) : stream_(stream) {}

  std::uint64_t number() const { return number_; }

  // The next line without its line end, valid until the next call. nullopt at the end of the file.
  std::optional<std::string_view> next() {
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

 private:
  std::FILE* stream_;
  std::string line_;
  std::uint64_t number_ = 0;
};

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

// Removes the first word from `text` and returns it; empty if there is none.
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

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Makes a word of the file short and printable for an error message.
std::string quote(std::string_view word) {
  std::string text(word.substr(0, 32));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("'{}{}'", text, word.size() > 32 ? "..." : "");
}

std::optional<std::uint64_t> to_integer(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<double> to_real(std::string_view word) {
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

struct Header {
  bool symmetric = false;
};

Header read_header(LineReader& lines) {
  const auto line = lines.next();
  if (!line) fail(1, "the file is empty");
  std::string_view rest = *line;
  if (lower(take_word(rest)) != "%%matrixmarket")
    fail(1, "does not begin with %%MatrixMarket: not a Matrix Market file");
  const std::string object = lower(take_word(rest));
  const std::string format = lower(take_word(rest));
  const std::string field = lower(take_word(rest));
  const std::string symmetry = lower(take_word(rest));
  if (symmetry.empty())
    fail(1, "the header must be: %%MatrixMarket matrix coordinate real general|symmetric");
  if (object != "matrix") fail(1, fmt::format("holds {}, not a matrix", quote(object)));
  if (format != "coordinate")
    fail(1, fmt::format("format {} is not supported, only coordinate", quote(format)));
  if (field != "real" && field != "integer")
    fail(1, fmt::format("field {} is not supported, only real and integer", quote(field)));
  if (symmetry != "general" && symmetry != "symmetric")
    fail(1,
         fmt::format("symmetry {} is not supported, only general and symmetric", quote(symmetry)));
  if (!is_blank(rest))
    fail(1, fmt::format("unexpected {} after the header", quote(take_word(rest))));
  return {symmetry == "symmetric"};
}

struct Size {
  std::uint32_t rows = 0;
  std::uint64_t entries = 0;
};

Size read_size(LineReader& lines, bool symmetric) {
  for (;;) {
    const auto line = lines.next();
    if (!line)
      fail(lines.number() + 1, "the file ends before the line with rows, columns and entries");
    if (line->starts_with('%') || is_blank(*line)) continue;
    std::string_view rest = *line;
    std::uint64_t numbers[3];
    for (std::uint64_t& number : numbers) {
      const std::string_view word = take_word(rest);
      const auto value = to_integer(word);
      if (!value)
        fail(lines.number(),
             fmt::format("expected three numbers (rows, columns, entries), found {}",
                         word.empty() ? "the end of the line" : quote(word)));
      number = *value;
    }
    const auto [rows, columns, entries] = numbers;
    if (!is_blank(rest))
      fail(lines.number(), fmt::format("unexpected {} after the size", quote(take_word(rest))));
    if (rows != columns)
      fail(lines.number(), fmt::format("the matrix is {} x {}, not square", rows, columns));
    if (rows == 0) fail(lines.number(), "the matrix has no rows");
    if (rows > most_rows)
      fail(lines.number(), fmt::format("{} rows are more than {}", rows, most_rows));
    // This also keeps a small file with a huge number of rows from using much memory.
    if (entries < rows)
      fail(lines.number(),
           fmt::format("{} entries cannot fill the diagonal of {} rows", entries, rows));
    if (entries > (symmetric ? rows * (rows + 1) / 2 : rows * rows))
      fail(lines.number(), fmt::format("{} entries are more than the matrix has places", entries));
    return {static_cast<std::uint32_t>(rows), entries};
  }
}

Triplet read_entry(std::string_view line, std::uint64_t number, const Size& size, bool symmetric) {
  std::string_view rest = line;
  std::uint32_t place[2];
  const char* const names[2] = {"row", "column"};
  for (int i = 0; i < 2; ++i) {
    const std::string_view word = take_word(rest);
    if (word.empty()) fail(number, "expected row, column and value");
    const auto value = to_integer(word);
    if (!value || *value < 1 || *value > size.rows)
      fail(number,
           fmt::format("{} {} is not a number from 1 to {}", names[i], quote(word), size.rows));
    place[i] = static_cast<std::uint32_t>(*value - 1);
  }
  const std::string_view word = take_word(rest);
  if (word.empty()) fail(number, "the value is missing");
  const auto value = to_real(word);
  if (!value) fail(number, fmt::format("value {} is not a finite double", quote(word)));
  if (!is_blank(rest))
    fail(number, fmt::format("unexpected {} after the value", quote(take_word(rest))));
  if (symmetric && place[0] < place[1])
    fail(number, "an entry above the diagonal: symmetric files hold the lower triangle");
  return {place[0], place[1], *value};
}

void refuse_duplicates(const std::vector<Triplet>& entries,
                       const std::vector<std::uint64_t>& lines) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::tuple(entries[i].row, entries[i].column, lines[i]);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Triplet& first = entries[order[i - 1]];
    const Triplet& second = entries[order[i]];
    if (first.row == second.row && first.column == second.column)
      fail(lines[order[i]], fmt::format("row {}, column {} was given on line {} already",
                                        first.row + 1, first.column + 1, lines[order[i - 1]]));
  }
}

Triplets read(LineReader& lines) {
  const Header header = read_header(lines);
  const Size size = read_size(lines, header.symmetric);
  Triplets matrix;
  matrix.rows = size.rows;
  std::vector<std::uint64_t> line_of;
  while (const auto line = lines.next()) {
    if (line->starts_with('%') || is_blank(*line)) continue;
    if (matrix.entries.size() == size.entries)
      fail(lines.number(), fmt::format("more than the {} entries announced", size.entries));
    matrix.entries.push_back(read_entry(*line, lines.number(), size, header.symmetric));
    line_of.push_back(lines.number());
  }
  if (matrix.entries.size() < size.entries)
    fail(lines.number() + 1,
         fmt::format("the file ends after {} of {} entries", matrix.entries.size(), size.entries));
  refuse_duplicates(matrix.entries, line_of);

  if (header.symmetric) {
    for (std::size_t i = 0; i < size.entries; ++i) {
      const Triplet lower_half = matrix.entries[i];
      if (lower_half.row != lower_half.column)
        matrix.entries.push_back({lower_half.column, lower_half.row, lower_half.value});
    }
  }
  return matrix;
}

}  // namespace

MatrixMarketResult read_matrix_market(std::FILE* stream) {
  try {
    LineReader lines(stream);
    return read(lines);
  } catch (const Malformed& malformed) {
    return malformed.error;
  }
}

MatrixMarketResult read_matrix_market(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "re"),
                                                               &std::fclose);
  if (!stream) return MatrixMarketError{0, std::strerror(errno)};
  return read_matrix_market(stream.get());
}

std::string describe(const std::string& path, const MatrixMarketError& error) {
  return error.line == 0 ? fmt::format("{}: {}", path, error.reason)
                         : fmt::format("{}:{}: {}", path, error.line, error.reason);
}

}  // namespace wherry::tool
