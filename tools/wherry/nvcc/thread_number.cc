#include "nvcc/thread_number.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "nvcc/is_one_of.h"

namespace wherry::tool {
namespace {

// # stands for x, y or z, the same one in all places of a form.
constexpr std::array<std::array<std::string_view, 13>, 6> forms = {{
    {"blockIdx", ".", "#", "*", "blockDim", ".", "#", "+", "threadIdx", ".", "#"},
    {"blockDim", ".", "#", "*", "blockIdx", ".", "#", "+", "threadIdx", ".", "#"},
    {"threadIdx", ".", "#", "+", "blockIdx", ".", "#", "*", "blockDim", ".", "#"},
    {"threadIdx", ".", "#", "+", "blockDim", ".", "#", "*", "blockIdx", ".", "#"},
    {"(", "blockIdx", ".", "#", "*", "blockDim", ".", "#", ")", "+", "threadIdx", ".", "#"},
    {"(", "blockDim", ".", "#", "*", "blockIdx", ".", "#", ")", "+", "threadIdx", ".", "#"},
}};

}  // namespace

std::size_t thread_number_at(const Tokens& tokens, std::size_t i) {
  if (i > 0 && is_one_of(tokens.text(i - 1), {"*", "/", "%", "-", ".", "->", "::", "!", "~"}))
    return 0;
  for (const auto& form : forms) {
    std::string_view axis;
    std::size_t matched = 0;
    while (matched < form.size() && !form[matched].empty()) {
      const std::string_view word = tokens.text(i + matched);
      if (form[matched] == "#") {
        if (!is_one_of(word, {"x", "y", "z"}) || (!axis.empty() && word != axis)) break;
        axis = word;
      } else if (word != form[matched]) {
        break;
      }
      ++matched;
    }
    if (matched < form.size() && !form[matched].empty()) continue;
    // After a name, the ( is that of a call and no part of the form.
    if (form[0] == "(" && i > 0 && tokens.is_identifier(i - 1) && !tokens.is(i - 1, "return"))
      continue;
    if (!is_one_of(tokens.text(i + matched), {"*", "/", "%", ".", "["})) return matched;
  }
  return 0;
}

std::string thread_number_call(const Tokens& tokens, std::size_t i) {
  const std::string axis(tokens.text(i + (tokens.is(i, "(") ? 3 : 2)));
  return "::wherry::kernels::global_index(blockIdx." + axis + ", blockDim." + axis +
         ", threadIdx." + axis + ")";
}

std::string line_with_thread_numbers(const Tokens& tokens, std::size_t from, std::size_t to) {
  std::string line;
  std::size_t begin = from;
  const auto add = [&](const std::string& text) {
    if (!line.empty() && !text.empty()) line += ' ';
    line += text;
  };
  for (std::size_t i = from; i < to; ++i) {
    const std::size_t length = thread_number_at(tokens, i);
    if (length == 0 || i + length > to) continue;
    add(tokens.in_one_line(begin, i));
    add(thread_number_call(tokens, i));
    begin = i + length;
    i = begin - 1;
  }
  add(tokens.in_one_line(begin, to));
  return line;
}

}  // namespace wherry::tool
