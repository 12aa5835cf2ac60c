// blockIdx.x * blockDim.x + threadIdx.x: the number of a thread in its row of the grid. The
// header's global_index() computes it so that the compiler sees consecutive numbers, which the sum
// of unsigned numbers hides, because it may wrap.
#pragma once

#include <cstddef>
#include <string>

#include "nvcc/lexer.h"

namespace wherry::tool {

// The number of tokens from i on that are such an expression, or 0.
std::size_t thread_number_at(const Tokens& tokens, std::size_t i);
// What replaces the expression at i. Requires: there is one.
std::string thread_number_call(const Tokens& tokens, std::size_t i);
// The tokens [from, to) in one line, with such expressions replaced.
std::string line_with_thread_numbers(const Tokens& tokens, std::size_t from, std::size_t to);

}  // namespace wherry::tool
