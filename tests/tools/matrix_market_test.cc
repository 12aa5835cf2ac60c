#include "matrix_market.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/text_stream.h"

namespace wherry::tool::matrix_market_test {
namespace {

MatrixMarketResult read_text(std::string text) {
  return read_matrix_market(wherry::test::stream_of(text).get());
}

Triplets good(const std::string& text) {
  MatrixMarketResult result = read_text(text);
  if (const auto* error = std::get_if<TextError>(&result)) FAIL(describe("text", *error));
  return std::get<Triplets>(std::move(result));
}

TextError bad(const std::string& text) {
  MatrixMarketResult result = read_text(text);
  if (std::holds_alternative<Triplets>(result)) FAIL("accepted:\n" << text);
  return std::get<TextError>(result);
}

double at(const Triplets& matrix, std::uint32_t row, std::uint32_t column) {
  const auto found = std::find_if(
      matrix.entries.begin(), matrix.entries.end(),
      [&](const Triplet& entry) { return entry.row == row && entry.column == column; });
  return found == matrix.entries.end() ? 0 : found->value;
}

const std::string general_header = "%%MatrixMarket matrix coordinate real general\n";
const std::string symmetric_header = "%%MatrixMarket matrix coordinate real symmetric\n";

// A symmetric matrix as real files have it: comments, blank lines, several notations.
std::string sample() {
  std::string text = symmetric_header + "% a comment\n\n5 5 9\n";
  for (int i = 1; i <= 5; ++i) text += std::to_string(i) + " " + std::to_string(i) + " 4.5e0\n";
  for (int i = 2; i <= 5; ++i)
    text += std::to_string(i) + "  " + std::to_string(i - 1) + "\t-1.25\n";
  return text;
}

}  // namespace

TEST_CASE("a general matrix is read without changes") {
  const Triplets matrix = good(general_header + "2 2 3\n1 1 1.5\n2 2 -2e3\n1 2 +0.25\n");
  CHECK(matrix.rows == 2);
  CHECK(matrix.entries.size() == 3);
  CHECK(at(matrix, 0, 0) == 1.5);
  CHECK(at(matrix, 1, 1) == -2000);
  CHECK(at(matrix, 0, 1) == 0.25);
  CHECK(at(matrix, 1, 0) == 0);
}

TEST_CASE("a symmetric matrix gets its upper triangle") {
  const Triplets matrix = good(sample());
  CHECK(matrix.rows == 5);
  CHECK(matrix.entries.size() == 5 + 2 * 4);
  CHECK(at(matrix, 3, 4) == -1.25);
  CHECK(at(matrix, 4, 3) == -1.25);
}

TEST_CASE(
    "letter case, line ends, blanks, comments and a missing newline at the end do not matter") {
  CHECK(good("%%matrixmarket MATRIX Coordinate REAL General\r\n%\r\n 1  1\t1 \r\n% c\r\n\r\n1 1 2")
            .entries.size() == 1);
  CHECK(at(good("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 7\n"), 0, 0) == 7);
}

TEST_CASE("a malformed file is refused with the line and a reason") {
  struct Case {
    std::string text;
    std::uint64_t line;
    const char* reason;
  };
  const std::string head = general_header;
  const Case cases[] = {
      {"", 1, "empty"},
      {"\n", 1, "does not begin with %%MatrixMarket"},
      {"1 1 1\n1 1 1\n", 1, "does not begin with %%MatrixMarket"},
      {"%%MatrixMarket\n", 1, "the header must be"},
      {"%%MatrixMarket matrix coordinate real\n", 1, "the header must be"},
      {"%%MatrixMarket vector coordinate real general\n", 1, "'vector'"},
      {"%%MatrixMarket matrix array real general\n1 1\n1\n", 1, "format 'array'"},
      {"%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n", 1, "field 'pattern'"},
      {"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n", 1, "field 'complex'"},
      {"%%MatrixMarket matrix coordinate real hermitian\n", 1, "symmetry 'hermitian'"},
      {"%%MatrixMarket matrix coordinate real skew-symmetric\n", 1, "symmetry 'skew-symmetric'"},
      {"%%MatrixMarket matrix coordinate real general extra\n", 1, "unexpected 'extra'"},
      {head, 2, "ends before"},
      {head + "% only\n% comments\n", 4, "ends before"},
      {head + "1 1\n", 2, "found the end of the line"},
      {head + "1 1 x\n", 2, "found 'x'"},
      {head + "1 1 -1\n", 2, "found '-1'"},
      {head + "1 1 1 1\n", 2, "unexpected '1'"},
      {head + "2 3 4\n", 2, "2 x 3, not square"},
      {head + "0 0 0\n", 2, "no rows"},
      {head + "4294967296 4294967296 4294967296\n", 2, "are more than"},
      {head + "99999999999999999999 1 1\n", 2, "expected three numbers"},
      {head + "2000000000 2000000000 1\n", 2, "cannot fill the diagonal"},
      {head + "1000000 1000000 1000000\n1 1 1\n", 4, "ends after 1 of 1000000"},
      {head + "2 2 5\n", 2, "more than the matrix has places"},
      {symmetric_header + "2 2 4\n", 2, "more than the matrix has places"},
      {head + "2 2 2\n1 1 1\n", 4, "ends after 1 of 2"},
      {head + "1 1 1\n1 1 1\n1 1 1\n", 4, "more than the 1 entries"},
      {head + "1 1 1\n0 1 1\n", 3, "row '0' is not a number from 1 to 1"},
      {head + "1 1 1\n1 2 1\n", 3, "column '2' is not a number from 1 to 1"},
      {head + "1 1 1\n-1 1 1\n", 3, "row '-1'"},
      {head + "1 1 1\n1.0 1 1\n", 3, "row '1.0'"},
      {head + "1 1 1\n1\n", 3, "expected row, column and value"},
      {head + "1 1 1\n1 1\n", 3, "the value is missing"},
      {head + "1 1 1\n1 1 one\n", 3, "value 'one'"},
      {head + "1 1 1\n1 1 nan\n", 3, "value 'nan'"},
      {head + "1 1 1\n1 1 inf\n", 3, "value 'inf'"},
      {head + "1 1 1\n1 1 1e999\n", 3, "value '1e999'"},
      {head + "1 1 1\n1 1 0x10\n", 3, "value '0x10'"},
      {head + "1 1 1\n1 1 +-1\n", 3, "value '+-1'"},
      {head + "1 1 1\n1 1 1 1\n", 3, "unexpected '1' after the value"},
      {head + "2 2 3\n1 1 1\n2 2 1\n1 1 3\n", 5, "row 1, column 1 was given on line 3"},
      {symmetric_header + "2 2 2\n1 1 1\n1 2 1\n", 4, "above the diagonal"},
      {head + std::string(70000, ' '), 2, "longer than"},
      {std::string(70000, '%'), 1, "longer than"},
      {head + std::string("1 1 1\n1 1 \0\x01\xff\n", 14), 3, "value '?\?\?'"},
  };
  for (const Case& wrong : cases) {
    INFO(wrong.text.substr(0, 200));
    const TextError error = bad(wrong.text);
    INFO(error.reason);
    CHECK(error.line == wrong.line);
    CHECK(error.reason.find(wrong.reason) != std::string::npos);
  }
}

TEST_CASE("a file that cannot be read is reported without a line") {
  const std::string absent = "/nonexistent/matrix.mtx";
  const MatrixMarketResult result = read_matrix_market(absent);
  REQUIRE(std::holds_alternative<TextError>(result));
  CHECK(describe(absent, std::get<TextError>(result)) ==
        "/nonexistent/matrix.mtx: No such file or directory");
  CHECK(describe("a.mtx", {3, "why"}) == "a.mtx:3: why");
  const MatrixMarketResult folder = read_matrix_market("/");
  REQUIRE(std::holds_alternative<TextError>(folder));
  CHECK(std::get<TextError>(folder).line == 0);
}

TEST_CASE("reading an endless file ends in an error") {
  const MatrixMarketResult result = read_matrix_market("/dev/zero");
  REQUIRE(std::holds_alternative<TextError>(result));
  CHECK(std::get<TextError>(result).line == 1);
}

TEST_CASE("mutated files give a valid matrix or one printable reason") {
  std::mt19937_64 random(test::seed());
  const std::string bits[] = {"\n",      " ",    "-",         "%",  "0", "9",
                              "1e",      "e9",   ".",         "\r", "x", std::string(1, '\0'),
                              "9999999", "\xff", "symmetric", "nan"};
  const std::string original = sample();
  int accepted = 0;
  for (std::uint64_t round = 0; round < test::scaled(20000); ++round) {
    std::string text = original;
    for (auto changes = 1 + random() % 3; changes > 0 && !text.empty(); --changes) {
      const std::size_t place = random() % text.size();
      switch (random() % 5) {
        case 0:
          text.resize(place);
          break;
        case 1:
          text.erase(place, 1 + random() % 4);
          break;
        case 2:
          text[place] = static_cast<char>(random());
          break;
        case 3:
          text.insert(place, bits[random() % std::size(bits)]);
          break;
        case 4:
          text.insert(place, text.substr(random() % text.size(), 20));
          break;
      }
    }
    INFO(text);
    const MatrixMarketResult result = read_text(text);
    if (const auto* error = std::get_if<TextError>(&result)) {
      REQUIRE(error->line >= 1);
      REQUIRE(error->line <=
              static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) + 2);
      REQUIRE_FALSE(error->reason.empty());
      for (const char c : error->reason) REQUIRE((c >= ' ' && c <= '~'));
      continue;
    }
    ++accepted;
    const Triplets& matrix = std::get<Triplets>(result);
    REQUIRE(matrix.entries.size() >= matrix.rows);
    for (const Triplet& entry : matrix.entries) {
      REQUIRE(entry.row < matrix.rows);
      REQUIRE(entry.column < matrix.rows);
      REQUIRE(std::isfinite(entry.value));
    }
  }
  CHECK(accepted > 0);
}

}  // namespace wherry::tool::matrix_market_test
