// The parameters of a function or of a template, by name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nvcc/lexer.h"

namespace wherry::tool {

struct Parameter {
  std::string name;  // empty if it has none
  bool is_pack = false;
  std::size_t name_before = 0;  // if unnamed: the token before which a name can go
};

// The parameters between tokens `open` and `close`, a pair of ( ) or < >.
std::vector<Parameter> function_parameters(const Tokens& tokens, std::size_t open,
                                           std::size_t close);
std::vector<Parameter> template_parameters(const Tokens& tokens, std::size_t open,
                                           std::size_t close);

}  // namespace wherry::tool
