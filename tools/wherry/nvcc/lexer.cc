#include "nvcc/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace wherry::tool {
namespace {

bool begins_identifier(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' ||
         (c & 0x80) != 0;
}
bool continues_identifier(char c) {
  return begins_identifier(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Longer ones come first, because the first that matches is taken.
constexpr std::array<std::string_view, 24> operators = {
    "<<=", ">>=", "...", "->*", "::", "->", "++", "--", "+=", "-=", "*=", "/=",
    "%=",  "&=",  "|=",  "^=",  "==", "!=", "<=", ">=", "&&", "||", "##", ".*"};

// Reads one token after the other. Positions are offsets in the text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks();
    if (at_ >= text_.size()) return {Token::Kind::end, text_.size(), text_.size()};
    const std::size_t begin = at_;
    const char c = text_[at_];
    if (c == '#' && is_line_start_) {
      skip_line();
      return {Token::Kind::directive, begin, at_};
    }
    is_line_start_ = false;
    if (begins_identifier(c)) {
      while (at_ < text_.size() && continues_identifier(text_[at_])) ++at_;
      if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\''))
        if (const auto prefix = text_.substr(begin, at_ - begin); is_prefix(prefix)) {
          skip_literal(prefix.ends_with('R'));
          return {Token::Kind::text, begin, at_};
        }
      return {Token::Kind::identifier, begin, at_};
    }
    if (c == '"' || c == '\'') {
      skip_literal(false);
      return {Token::Kind::text, begin, at_};
    }
    const bool is_fraction = c == '.' && is_digit(at_ + 1);
    if (is_digit(at_) || is_fraction) {
      skip_number();
      return {Token::Kind::number, begin, at_};
    }
    for (const std::string_view each : operators)
      if (text_.substr(at_, each.size()) == each) {
        at_ += each.size();
        return {Token::Kind::punctuation, begin, at_};
      }
    ++at_;
    return {Token::Kind::punctuation, begin, at_};
  }

 private:
  bool is_digit(std::size_t i) const {
    return i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i])) != 0;
  }
  static bool is_prefix(std::string_view word) {
    if (word.ends_with('R')) word.remove_suffix(1);
    return word.empty() || word == "L" || word == "u" || word == "U" || word == "u8";
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n')
        is_line_start_ = true;
      else if (text_.substr(at_, 2) == "//") {
        skip_line();
        continue;
      } else if (text_.substr(at_, 2) == "/*") {
        const std::size_t close = text_.find("*/", at_ + 2);
        at_ = close == std::string_view::npos ? text_.size() : close + 2;
        continue;
      } else if (std::isspace(static_cast<unsigned char>(c)) == 0)
        return;
      ++at_;
    }
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
  }
  void skip_literal(bool raw) {
    const char quote = text_[at_++];
    if (raw) {
      const std::size_t open = text_.find('(', at_);
      if (open == std::string_view::npos) return;
      const std::string close = ")" + std::string(text_.substr(at_, open - at_)) + "\"";
      const std::size_t found = text_.find(close, open);
      at_ = found == std::string_view::npos ? text_.size() : found + close.size();
      return;
    }
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n')
      at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, text_.size());
  }
  void skip_number() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const char before = text_[at_ - (at_ == 0 ? 0 : 1)];
      const bool is_sign = (c == '+' || c == '-') &&
                           (before == 'e' || before == 'E' || before == 'p' || before == 'P');
      if (!continues_identifier(c) && c != '.' && c != '\'' && !is_sign) return;
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool is_line_start_ = true;
};

}  // namespace

Tokens::Tokens(std::string source) : source_(std::move(source)) {
  split();
  pair_brackets();
}

void Tokens::split() {
  tokens_.reserve(source_.size() / 4);
  Scanner scanner(source_);
  do tokens_.push_back(scanner.next());
  while (tokens_.back().kind != Token::Kind::end);
}

void Tokens::pair_brackets() {
  partners_.assign(size(), size() - 1);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < size(); ++i) {
    if (tokens_[i].kind != Token::Kind::punctuation) continue;
    const char c = source_[tokens_[i].begin];
    if (c == '(' || c == '[' || c == '{') open.push_back(i);
    if (c != ')' && c != ']' && c != '}') continue;
    partners_[i] = open.empty() ? 0 : open.back();
    if (open.empty()) continue;
    partners_[open.back()] = i;
    open.pop_back();
  }
}

bool Tokens::are_adjacent(std::size_t i, std::string_view characters) const {
  const std::size_t begin = (*this)[i].begin;
  if (std::string_view(source_).substr(begin, characters.size()) != characters) return false;
  return (*this)[i].end == begin + 1;
}

std::size_t Tokens::skip_directives(std::size_t i) const {
  while ((*this)[i].kind == Token::Kind::directive) ++i;
  return i;
}

std::size_t Tokens::closing_angle(std::size_t i) const {
  int depth = 0;
  for (; i < size(); ++i) {
    const std::string_view word = text(i);
    if (word == "(" || word == "[" || word == "{") {
      i = partner(i);
    } else if (word == "<") {
      ++depth;
    } else if (word == ">") {
      if (--depth == 0) return i;
    } else if (word == ";" || word == ")" || word == "}" || word == "&&" || word == "||") {
      return 0;
    }
  }
  return 0;
}

std::size_t Tokens::opening_angle(std::size_t i) const {
  int depth = 0;
  for (; i > 0; --i) {
    const std::string_view word = text(i);
    if (word == ")" || word == "]" || word == "}") {
      i = partner(i);
    } else if (word == ">") {
      ++depth;
    } else if (word == "<") {
      if (--depth == 0) return i;
    } else if (word == ";" || word == "(" || word == "{") {
      return 0;
    }
  }
  return 0;
}

std::string Tokens::in_one_line(std::size_t from, std::size_t to) const {
  std::string line;
  for (std::size_t i = from; i < to; ++i) {
    if ((*this)[i].kind == Token::Kind::directive) continue;
    // Adjacent tokens stay adjacent, such as >> and <<.
    if (!line.empty() && (i == 0 || (*this)[i - 1].end != (*this)[i].begin)) line += ' ';
    line += text(i);
  }
  return line;
}

Tokens::Place Tokens::place_of(std::size_t i) const {
  Place place;
  std::size_t start = 0;
  for (std::size_t j = 0; j < i && j < size(); ++j) {
    if (tokens_[j].kind != Token::Kind::directive) continue;
    // For example: # 12 "file.cu" 1
    std::string_view rest = text(j).substr(1);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (rest.empty() || std::isdigit(static_cast<unsigned char>(rest.front())) == 0) continue;
    place.line = std::stoul(std::string(rest));
    start = tokens_[j].end + 1;
    const std::size_t quote = rest.find('"');
    if (quote != std::string_view::npos)
      place.file = rest.substr(quote + 1, rest.find('"', quote + 1) - quote - 1);
  }
  const std::size_t to = (*this)[i].begin;
  if (start < to)
    place.line += static_cast<std::size_t>(
        std::ranges::count(std::string_view(source_).substr(start, to - start), '\n'));
  return place;
}

std::string Tokens::new_line_for(std::size_t i) const {
  const Place place = place_of(i);
  const std::size_t begin = (*this)[i].begin;
  const std::size_t line_end = begin == 0 ? std::string::npos : source_.rfind('\n', begin - 1);
  const std::size_t column = line_end == std::string::npos ? begin : begin - line_end - 1;
  return "\n# " + std::to_string(place.line) + " \"" + place.file + "\"\n" +
         std::string(column, ' ');
}

}  // namespace wherry::tool
