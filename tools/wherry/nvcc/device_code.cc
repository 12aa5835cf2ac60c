#include "nvcc/device_code.h"

#include <algorithm>
#include <array>

#include "nvcc/is_one_of.h"

namespace wherry::tool {
namespace {

bool is_marker(std::string_view word) {
  return is_one_of(
      word, {"__global__", "__device__", "__host__", "__constant__", "__managed__", "__shared__"});
}

// Words that a declaration may begin with and that are followed by a group in parentheses.
bool takes_group(std::string_view word) {
  return is_one_of(word, {"__attribute__", "__attribute", "alignas", "_Alignas", "decltype",
                          "__typeof__", "typeof", "noexcept", "explicit", "requires"});
}

// Functions that wait for other threads, and that ask which thread runs. All others that do so call
// these of wherry/detail/kernel_code.h.
constexpr std::array waiting = {"wherryBlockBarrier", "wherryWarpBarrier", "wherryWarpExchange",
                                "wherryTileBarrier", "wherryActiveLanes"};
constexpr std::array asking = {"wherryThisThread"};

bool is_texture_word(std::string_view word) {
  return is_one_of(word, {"tex1D",
                          "tex2D",
                          "tex3D",
                          "tex1Dfetch",
                          "tex2DLod",
                          "tex1DLayered",
                          "tex2DLayered",
                          "texCubemap",
                          "tex2Dgather",
                          "surf1Dread",
                          "surf2Dread",
                          "surf3Dread",
                          "surf1Dwrite",
                          "surf2Dwrite",
                          "surf3Dwrite",
                          "cudaTextureObject_t",
                          "cudaSurfaceObject_t",
                          "cudaCreateTextureObject",
                          "cudaBindTexture",
                          "cudaBindTexture2D",
                          "cudaBindTextureToArray"});
}

}  // namespace

DeviceCode::DeviceCode(const Tokens& tokens) : tokens_(tokens) {
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    switch (tokens[i].kind) {
      case Token::Kind::identifier:
        if (tokens.text(i).starts_with("__") && is_marker(tokens.text(i)))
          look_at_marker(i);
        else
          check_word(i);
        break;
      case Token::Kind::punctuation:
        if (tokens.is(i, "{") && !is_at_namespace_scope(i)) scopes_.push_back(i);
        if (tokens.is(i, "}") && !scopes_.empty() && scopes_.back() == tokens.partner(i))
          scopes_.pop_back();
        if (tokens.are_adjacent(i, "<<<") || is_spaced(i, '<')) add_launch(i);
        break;
      default:
        break;
    }
  }
  for (const Launch& launch : launches_)
    for (const DeviceFunction& function : functions_)
      if (function.body_open < launch.open && launch.open < function.body_close &&
          !function.is_host_too)
        refuse(launch.open, "a kernel cannot launch a kernel (dynamic parallelism) on Wherry");
}

void DeviceCode::refuse(std::size_t i, const std::string& what) {
  const Tokens::Place place = tokens_.place_of(i);
  refusals_.push_back(place.file + ":" + std::to_string(place.line) + ": error: " + what);
}

// Whether the { at i opens a namespace or a linkage specification.
bool DeviceCode::is_at_namespace_scope(std::size_t i) const {
  for (std::size_t j = i; j-- > 0;) {
    const Token& token = tokens_[j];
    if (token.kind == Token::Kind::directive) continue;
    const std::string_view word = tokens_.text(j);
    if (word == "namespace") return true;
    if (word == "extern") return i - j <= 3 && tokens_[j + 1].kind == Token::Kind::text;
    if (token.kind == Token::Kind::punctuation && word != "::" && word != "[" && word != "]" &&
        word != "(" && word != ")")
      return false;
    if (i - j > 24) return false;
  }
  return false;
}

std::size_t DeviceCode::begin_of_declaration(std::size_t i) const {
  while (i > 0) {
    const std::string_view word = tokens_.text(i - 1);
    if (tokens_[i - 1].kind == Token::Kind::directive) break;
    if (word == ";" || word == "{" || word == "}") break;
    if (word == ":" && is_one_of(tokens_.text(i - 2), {"public", "private", "protected"})) break;
    --i;
    if (word == ")" || word == "]") i = tokens_.partner(i);
  }
  return tokens_.skip_directives(i);
}

void DeviceCode::look_at_marker(std::size_t i) {
  // A declaration may have several markers, such as __host__ __device__. In a lambda each call adds
  // its marker; otherwise the call for the first marker looks at the whole declaration.
  DeviceFunction function;
  std::size_t at = i + 1;
  const bool is_lambda_head =
      i > 0 &&
      (tokens_.is(i - 1, "]") || (is_marker(tokens_.text(i - 1)) && !functions_.empty() &&
                                  functions_.back().is_lambda && functions_.back().begin + 8 > i));
  if (is_lambda_head &&
      (tokens_.is(at, "(") || tokens_.is(at, "{") || is_marker(tokens_.text(at)))) {
    const bool is_first = tokens_.is(i - 1, "]");
    if (is_first) {
      functions_.push_back({});
      functions_.back().is_lambda = functions_.back().is_anonymous = true;
      functions_.back().begin = tokens_.partner(i - 1);
      functions_.back().in_class = true;
    }
    DeviceFunction& lambda = functions_.back();
    lambda.is_host_too |= tokens_.is(i, "__host__");
    if (tokens_.is(at, "(")) {
      lambda.params_open = at;
      lambda.params_close = at = tokens_.partner(at);
    }
    if (!is_marker(tokens_.text(at))) {
      lambda.body_open = tokens_.is(at, "{") ? at : find_body(at + 1);
      lambda.body_close = tokens_.partner(lambda.body_open);
    }
    return;
  }
  const std::size_t begin = begin_of_declaration(i);
  for (std::size_t j = begin; j < i; ++j)
    if (is_marker(tokens_.text(j))) return;  // the call for the first marker looks at all
  function.begin = begin;
  function.in_class = !scopes_.empty();
  function.owner = class_around();
  for (at = begin; at < tokens_.size(); ++at) {
    if (tokens_[at].kind == Token::Kind::directive) continue;
    const std::string_view word = tokens_.text(at);
    if (word == "__global__") function.is_kernel = true;
    if (word == "__host__") function.is_host_too = true;
    if (takes_group(word) && tokens_.is(at + 1, "(")) {
      at = tokens_.partner(at + 1);
    } else if (word == "operator") {
      function.name_at = at;
      function.is_anonymous = true;
      std::size_t open = at + 1;
      if (tokens_.is(open, "(")) open += 2;
      while (open < tokens_.size() && !tokens_.is(open, "(")) ++open;
      function.name = word;
      return add_function(function, open);
    } else if (word == "[" && tokens_.is(at + 1, "[")) {
      at = tokens_.partner(at);
    } else if (word == "<") {
      const std::size_t close = tokens_.closing_angle(at);
      if (close == 0) return;
      at = close;
    } else if (word == "(") {
      if (tokens_.is(at + 1, "*") || tokens_.is(at + 1, "&")) return add_variable(i, begin, at);
      std::size_t name = at - 1;
      if (tokens_.is(name, ">")) name = tokens_.opening_angle(name) - 1;
      if (!tokens_.is_identifier(name)) return;
      function.name_at = name;
      function.name = tokens_.text(name);
      function.is_anonymous = tokens_.is(name - 1, "~");
      return add_function(function, at);
    } else if (word == "=" || word == ";" || word == "[" || word == "{" || word == ",") {
      return add_variable(i, begin, at);
    } else if (word == ")" || word == "}" || word == ":") {
      return;
    }
  }
}

// The { of the body after the parameters; 0 if the function is only declared.
std::size_t DeviceCode::find_body(std::size_t i) const {
  for (; i < tokens_.size(); ++i) {
    if (tokens_[i].kind == Token::Kind::directive) continue;
    const std::string_view word = tokens_.text(i);
    if (word == "{") return i;
    if (word == ";" || word == "=" || word == ",") return 0;
    if (word == "(" || word == "[") i = tokens_.partner(i);
    if (word != ":") continue;
    // Initializers of members: name(...) or name{...}, separated by commas.
    for (++i; i < tokens_.size(); ++i) {
      if (!tokens_.is(i, "(") && !tokens_.is(i, "{")) continue;
      i = tokens_.partner(i);
      if (tokens_.is(i + 1, "...")) ++i;
      if (tokens_.is(i + 1, "{")) return i + 1;
      if (!tokens_.is(i + 1, ",")) break;
    }
  }
  return 0;
}

void DeviceCode::add_function(DeviceFunction function, std::size_t open) {
  function.params_open = open;
  function.params_close = tokens_.partner(open);
  function.body_open = find_body(function.params_close + 1);
  if (function.body_open != 0) function.body_close = tokens_.partner(function.body_open);
  functions_.push_back(function);
}

void DeviceCode::add_variable(std::size_t i, std::size_t begin, std::size_t end) {
  DeviceVariable variable;
  variable.begin = begin;
  variable.end = end;
  variable.marker = i;
  variable.in_function = !scopes_.empty();
  for (std::size_t j = begin; j < end; ++j) {
    const std::string_view word = tokens_.text(j);
    if (word == "__shared__") variable.is_shared = true;
    if (is_marker(word)) variable.marker = j;
    if (word == "<") j = std::max(j, tokens_.closing_angle(j));
    if (word == "*") variable.is_constant = false;
    if (word == "constexpr" || word == "const") variable.is_constant = true;
  }
  variables_.push_back(variable);
}

void DeviceCode::add_launch(std::size_t i) {
  if (i == 0 || tokens_.is(i - 1, "operator")) return;
  Launch launch;
  launch.open = i;
  // The callee: a name with template arguments and scopes, or an expression in parentheses.
  std::size_t at = i - 1;
  for (;;) {
    if (tokens_.is(at, ">")) at = tokens_.opening_angle(at) - 1;
    if (tokens_.is(at, ")") || tokens_.is(at, "]")) {
      at = tokens_.partner(at);
      const bool is_call = tokens_.is_identifier(at - 1) && !tokens_.is(at - 1, "return");
      if (is_call || tokens_.is(at - 1, ")") || tokens_.is(at - 1, "]")) {
        --at;
        continue;
      }
    }
    if (at > 0 && tokens_.is(at - 1, "template")) --at;
    if (at < 2 || !is_one_of(tokens_.text(at - 1), {"::", ".", "->"})) break;
    --at;
    if (tokens_.is(at, "::") && !tokens_.is_identifier(at - 1) && !tokens_.is(at - 1, ">")) break;
    --at;
  }
  launch.callee = at;
  const bool may_be_spaced = is_spaced(i, '<');
  for (at = i + 3; at < tokens_.size(); ++at) {
    const std::string_view word = tokens_.text(at);
    if (word == "(" || word == "[" || word == "{") at = tokens_.partner(at);
    if (word == ">" && tokens_.are_adjacent(at, ">>>")) break;
    if (may_be_spaced && is_spaced(at, '>')) break;
    if (word == ";") break;
  }
  launch.close = at;
  if (!tokens_.is(at, ">") || !tokens_.is(tokens_.skip_directives(at + 3), "("))
    return refuse(i, "this <<< has no matching >>>( of a launch");
  launches_.push_back(launch);
}

// nvcc also accepts << < and >> >, into which formatters split the brackets of a launch.
bool DeviceCode::is_spaced(std::size_t i, char bracket) const {
  const std::string two(2, bracket);
  return tokens_.are_adjacent(i, two) && !tokens_.are_adjacent(i, two + bracket) &&
         i + 2 < tokens_.size() && tokens_.text(i + 2) == std::string(1, bracket);
}

void DeviceCode::check_word(std::size_t i) {
  const std::string_view word = tokens_.text(i);
  if (is_texture_word(word) || (word == "texture" && tokens_.is(i + 1, "<"))) {
    refuse(i, std::string(word) + ": textures and surfaces are not supported on Wherry");
    return;
  }
  if (!is_one_of(word, {"asm", "__asm__", "__asm"})) return;
  std::size_t text = i + 1;
  while (is_one_of(tokens_.text(text), {"volatile", "__volatile__", "("})) ++text;
  if (tokens_.is(text, "\"\"")) return;
  for (const DeviceFunction& function : functions_)
    if (function.body_open < i && i < function.body_close) {
      refuse(i, "inline PTX (asm) in device code is not supported on Wherry");
      return;
    }
}

bool DeviceCode::begins_lambda(const Tokens& tokens, std::size_t i) {
  if (!tokens.is(i, "[") || tokens.is(i + 1, "[") || i == 0) return false;
  const std::string_view before = tokens.text(i - 1);
  const bool ends_expression = tokens.is_identifier(i - 1) || before == ")" || before == "]" ||
                               before == "}" || tokens[i - 1].kind == Token::Kind::text;
  return !ends_expression || before == "return";
}

void DeviceCode::collect_names(const DeviceFunction& function, Names& names) const {
  const std::size_t begin = function.params_open == 0 ? function.body_open : function.params_open;
  for (std::size_t i = begin; i < function.body_close; ++i) {
    if (!tokens_.is_identifier(i)) continue;
    names.all.insert(tokens_.text(i));
    if (tokens_.is(i + 1, "(") || tokens_.is(i + 1, "<")) names.called.insert(tokens_.text(i));
  }
}

// Whether code that contains these names may call the function. A member is called by its name; for
// other functions any use of the name counts, because it may be the address.
bool DeviceCode::is_reached(const DeviceFunction& function, const Names& names) const {
  if (function.is_kernel) return false;
  if (!function.is_anonymous)
    return (function.in_class ? names.called : names.all).contains(function.name);
  // No name calls this function: the code has the lambda, or an object of the class, as an argument
  // whose type is a template parameter of the kernel, or it names the class.
  if (names.has_parameters) return true;
  if (function.is_lambda) return false;
  return function.owner.empty() || names.all.contains(function.owner);
}

// The name of the innermost class that is still open.
std::string_view DeviceCode::class_around() const {
  if (scopes_.empty()) return {};
  for (std::size_t i = scopes_.back(); i-- > 0;) {
    const std::string_view word = tokens_.text(i);
    if (word == "struct" || word == "class" || word == "union") {
      while (tokens_.is(i + 1, "__attribute__") || tokens_.is(i + 1, "alignas"))
        i = tokens_.partner(i + 2);
      return tokens_.is_identifier(i + 1) ? tokens_.text(i + 1) : std::string_view();
    }
    if (word == ";" || word == "{" || word == "}") return {};
  }
  return {};
}

KernelNeeds DeviceCode::needs_of(const DeviceFunction& kernel,
                                 std::initializer_list<std::string_view> without) const {
  Names names;
  names.has_parameters = tokens_.is(kernel.begin, "template");
  collect_names(kernel, names);
  // A kernel has its own index as a parameter and need not ask for it.
  names.all.erase("threadIdx");
  for (const std::string_view word : without) {
    names.all.erase(word);
    names.called.erase(word);
  }
  return needs_of_names(std::move(names));
}

KernelNeeds DeviceCode::needs_of_names(Names names) const {
  KernelNeeds needs;
  std::vector<bool> is_seen(functions_.size());
  for (bool is_new = true; is_new;) {
    is_new = false;
    // A variable may contain pointers to functions, which its initializer names.
    for (const DeviceVariable& variable : variables_) {
      const std::string_view name = tokens_.text(variable.end - 1);
      if (variable.is_shared || !names.all.contains(name)) continue;
      for (std::size_t i = variable.end; i < tokens_.size() && !tokens_.is(i, ";"); ++i)
        if (tokens_.is_identifier(i)) is_new |= names.all.insert(tokens_.text(i)).second;
    }
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      const DeviceFunction& function = functions_[i];
      if (is_seen[i] || !is_reached(function, names)) continue;
      is_seen[i] = is_new = true;
      if (function.body_open != 0) {
        collect_names(function, names);
        continue;
      }
      const bool is_defined =
          function.is_anonymous || std::ranges::any_of(functions_, [&](const DeviceFunction& each) {
            return each.name == function.name && each.body_open != 0;
          });
      // A function that another file defines may wait, and may ask which thread runs.
      if (!is_defined) needs.waits = needs.thread_index = true;
    }
  }
  const auto names_one = [&](const auto& words) {
    return std::ranges::any_of(words, [&](const char* word) { return names.all.contains(word); });
  };
  needs.waits |= names_one(waiting);
  needs.thread_index |= names_one(asking) || names.all.contains("threadIdx");
  return needs;
}

}  // namespace wherry::tool
