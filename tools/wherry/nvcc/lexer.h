// Splits preprocessed C++ into tokens. Keeps the positions, so that text can be changed in place
// and all other text, with its lines, stays as it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace wherry::tool {

struct Token {
  enum class Kind : unsigned char {
    identifier,  // and keywords
    number,
    text,         // a string or character literal, raw ones too
    punctuation,  // `<` and `>` are single, except in `<=`, `>=`, `->`, `<<=` and `>>=`
    directive,    // a whole line that begins with #, without its end
    end,          // after the last one
  };
  Kind kind = Kind::end;
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Tokens {
 public:
  explicit Tokens(std::string source);

  const std::string& source() const { return source_; }
  std::size_t size() const { return tokens_.size(); }
  const Token& operator[](std::size_t i) const { return tokens_[i < size() ? i : size() - 1]; }
  std::string_view text(std::size_t i) const {
    const Token& token = (*this)[i];
    return std::string_view(source_).substr(token.begin, token.end - token.begin);
  }
  bool is(std::size_t i, std::string_view text_of_it) const { return text(i) == text_of_it; }
  bool is_identifier(std::size_t i) const { return (*this)[i].kind == Token::Kind::identifier; }
  // Whether the tokens i, i + 1, ... are these characters, with nothing between them.
  bool are_adjacent(std::size_t i, std::string_view characters) const;

  // The index of the first token at or after i that is no directive.
  std::size_t skip_directives(std::size_t i) const;
  // The partner of the bracket ( [ { or of ) ] } at i; size() - 1 or 0 if it has none.
  std::size_t partner(std::size_t i) const { return partners_[i]; }
  // The index of the `>` that closes the template arguments which the `<` at i opens; 0 if it
  // cannot open any.
  std::size_t closing_angle(std::size_t i) const;
  // The index of the `<` that belongs to the `>` at i; 0 if there is none.
  std::size_t opening_angle(std::size_t i) const;

  // The text of tokens [from, to) in one line, without directives.
  std::string in_one_line(std::size_t from, std::size_t to) const;

  // The token's place in the source files, from the # directives.
  struct Place {
    std::string file = "?";
    std::size_t line = 1;
  };
  Place place_of(std::size_t i) const;
  // Text to insert before the token if other text has been inserted there: it begins a new line
  // with a # directive, so that compilers see the token at its old line and column.
  std::string new_line_for(std::size_t i) const;

 private:
  void split();
  void pair_brackets();

  std::string source_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> partners_;
};

}  // namespace wherry::tool
