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

#include "text_lines.h"

namespace wherry::tool {
namespace {

constexpr std::uint64_t most_rows = std::numeric_limits<std::int32_t>::max();

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
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
    // Without this check, a small file that claims many rows would use much memory.
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
  } catch (const MalformedText& malformed) {
    return malformed.error;
  }
}

MatrixMarketResult read_matrix_market(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "re"),
                                                               &std::fclose);
  if (!stream) return TextError{0, std::strerror(errno)};
  return read_matrix_market(stream.get());
}

}  // namespace wherry::tool
