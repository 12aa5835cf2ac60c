#include "nvcc/parameters.h"

#include <algorithm>
#include <array>

namespace wherry::tool {
namespace {

struct ListPart {
  std::size_t begin = 0;
  std::size_t end = 0;  // before = of a default argument
};

// Splits at the commas that are in no brackets.
std::vector<ListPart> split(const Tokens& tokens, std::size_t open, std::size_t close) {
  std::vector<ListPart> parts;
  if (open + 1 == close) return parts;
  ListPart part{open + 1, 0};
  const auto finish = [&](std::size_t at) {
    if (part.end == 0) part.end = at;
    part.begin = tokens.skip_directives(part.begin);
    if (part.begin < part.end) parts.push_back(part);
    part = {at + 1, 0};
  };
  for (std::size_t i = open + 1; i < close; ++i) {
    const std::string_view word = tokens.text(i);
    if (word == "(" || word == "[" || word == "{") {
      i = tokens.partner(i);
    } else if (word == "<" && part.end == 0) {
      i = std::max(i, tokens.closing_angle(i));
    } else if (word == "=" && part.end == 0) {
      part.end = i;
    } else if (word == ",") {
      finish(i);
    }
  }
  finish(close);
  return parts;
}

bool is_type_word(std::string_view word) {
  constexpr std::array words = {
      "void",    "bool",         "char",       "short",    "int",      "long",     "float",
      "double",  "signed",       "unsigned",   "const",    "volatile", "auto",     "wchar_t",
      "char8_t", "char16_t",     "char32_t",   "struct",   "class",    "typename", "enum",
      "union",   "__restrict__", "__restrict", "restrict", "template"};
  return std::ranges::find(words, word) != words.end();
}

// Whether the word is a qualifier: if only such words precede a name, the name is the type, and the
// parameter has none.
bool is_only_qualifier(std::string_view word) {
  constexpr std::array words = {"const",    "volatile", "struct", "class",
                                "typename", "enum",     "union",  "::"};
  return std::ranges::find(words, word) != words.end();
}

Parameter parameter_in(const Tokens& tokens, const ListPart& part) {
  Parameter parameter;
  std::size_t end = part.end;
  // An array: float a[16][16]
  while (end > part.begin && tokens.is(end - 1, "]")) end = tokens.partner(end - 1);
  // A pointer to a function: void (*f)(int)
  for (std::size_t i = part.begin; i + 2 < part.end; ++i)
    if (tokens.is(i, "(") && (tokens.is(i + 1, "*") || tokens.is(i + 1, "&"))) {
      const std::size_t name = tokens.partner(i) - 1;
      if (tokens.is_identifier(name)) parameter.name = tokens.text(name);
      parameter.name_before = tokens.partner(i);
      return parameter;
    }
  parameter.name_before = end;
  for (std::size_t i = part.begin; i < end; ++i) parameter.is_pack |= tokens.is(i, "...");
  const std::size_t last = end - 1;
  if (last <= part.begin || !tokens.is_identifier(last) || is_type_word(tokens.text(last)) ||
      tokens.is(last - 1, "::"))
    return parameter;
  for (std::size_t i = part.begin; i < last; ++i)
    if (!is_only_qualifier(tokens.text(i))) parameter.name = tokens.text(last);
  return parameter;
}

}  // namespace

std::vector<Parameter> function_parameters(const Tokens& tokens, std::size_t open,
                                           std::size_t close) {
  std::vector<Parameter> parameters;
  const std::vector<ListPart> parts = split(tokens, open, close);
  if (parts.size() == 1 && parts[0].end == parts[0].begin + 1 && tokens.is(parts[0].begin, "void"))
    return parameters;
  for (const ListPart& part : parts) parameters.push_back(parameter_in(tokens, part));
  return parameters;
}

std::vector<Parameter> template_parameters(const Tokens& tokens, std::size_t open,
                                           std::size_t close) {
  std::vector<Parameter> parameters;
  for (const ListPart& part : split(tokens, open, close)) {
    Parameter parameter;
    for (std::size_t i = part.begin; i < part.end; ++i) parameter.is_pack |= tokens.is(i, "...");
    const std::size_t last = part.end - 1;
    parameter.name_before = part.end;
    if (last > part.begin && tokens.is_identifier(last) && !is_type_word(tokens.text(last)) &&
        !tokens.is(last - 1, "::"))
      parameter.name = tokens.text(last);
    parameters.push_back(parameter);
  }
  return parameters;
}

}  // namespace wherry::tool
