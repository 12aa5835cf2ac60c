#include "nvcc/kernel_body.h"

#include <algorithm>
#include <array>

#include "nvcc/is_one_of.h"

namespace wherry::tool {
namespace {

bool is_built_in_type(std::string_view word) {
  return is_one_of(
      word, {"int", "unsigned", "signed", "char", "short", "long", "float", "double", "bool"});
}
// Types that are plain numbers.
bool is_plain_type(std::string_view word) {
  constexpr std::array names = {"size_t",  "int8_t",   "int16_t",   "int32_t",  "int64_t",
                                "uint8_t", "uint16_t", "uint32_t",  "uint64_t", "uint",
                                "uchar",   "ushort",   "ptrdiff_t", "float1",   "float2",
                                "float3",  "float4",   "double2",   "int2",     "int3",
                                "int4",    "uint2",    "uint3",     "uint4",    "uchar4"};
  return std::ranges::find(names, word) != names.end();
}
bool is_index(std::string_view word) {
  return is_one_of(word, {"threadIdx", "blockIdx", "blockDim", "gridDim"});
}

}  // namespace

bool is_assignment(std::string_view word) {
  return is_one_of(word, {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="});
}

KernelBody::KernelBody(const Tokens& tokens, const DeviceCode& code, const DeviceFunction& kernel)
    : tokens_(tokens), code_(code), kernel_(kernel) {
  read_names();
}

void KernelBody::know(const std::string& name, bool differs_between_threads) {
  known_.insert(name);
  if (differs_between_threads) thread_dependent_.insert(name);
}

void KernelBody::forget(const std::string& name) {
  known_.erase(name);
  thread_dependent_.erase(name);
}

bool KernelBody::has_word(const Part& part, std::string_view word) const {
  for (std::size_t i = part.begin; i < part.end; ++i)
    if (tokens_.is(i, word)) return true;
  return false;
}

void KernelBody::read_names() {
  for (const DeviceVariable& variable : code_.variables())
    for (std::size_t i = variable.begin; i < variable.end; ++i)
      if (!variable.is_constant) memory_.insert(tokens_.text(i));
  for (std::size_t i = kernel_.body_open; i < kernel_.body_close; ++i) {
    if (!tokens_.is_identifier(i)) continue;
    const std::string_view before = tokens_.text(i - 1);
    const std::string_view after = tokens_.text(i + 1);
    const bool is_declared = tokens_.is_identifier(i - 1) || before == "*" || before == ",";
    const bool is_address = before == "&" && !is_operand_end(i - 2);
    if ((is_assignment(after) && !(after == "=" && is_declared && is_declaration_of(i))) ||
        is_one_of(after, {"++", "--", ".", "->"}) || is_one_of(before, {"++", "--"}) || is_address)
      if (!is_index(tokens_.text(i)) && before != "." && before != "->")
        modified_.insert(tokens_.text(i));
  }
  for (std::size_t i = kernel_.body_open; i < kernel_.body_close; ++i)
    if (is_one_of(tokens_.text(i), {"(", ","}) && tokens_.is_identifier(i + 1) &&
        is_one_of(tokens_.text(i + 2), {")", ","}) && may_change_arguments(i))
      modified_.insert(tokens_.text(i + 1));
  for (const Parameter& parameter :
       function_parameters(tokens_, kernel_.params_open, kernel_.params_close))
    parameters_.push_back(parameter);
}

// Whether the function that is called may take references. `i`: the ( or , before an argument.
bool KernelBody::may_change_arguments(std::size_t i) const {
  while (i > kernel_.body_open && !tokens_.is(i, "(")) {
    if (is_one_of(tokens_.text(i), {";", "{", "}"})) return false;
    --i;
    if (is_one_of(tokens_.text(i), {")", "]", "}"})) i = tokens_.partner(i) - 1;
  }
  std::size_t callee = i - 1;
  if (tokens_.is(callee, ">")) callee = tokens_.opening_angle(callee) - 1;
  if (!tokens_.is_identifier(callee)) return false;
  const std::string_view name = tokens_.text(callee);
  if (is_one_of(name, {"swap", "exchange"})) return true;
  for (std::size_t j = kernel_.params_open; j < kernel_.params_close; ++j)
    if (tokens_.is(j, name)) return true;  // a parameter is called
  return std::ranges::any_of(code_.functions(), [&](const DeviceFunction& each) {
    return each.name == name && !each.is_kernel &&
           tokens_.in_one_line(each.params_open, each.params_close).find('&') != std::string::npos;
  });
}

// Whether the token at i ends an operand, so that an operator after it is a binary one.
bool KernelBody::is_operand_end(std::size_t i) const {
  return tokens_.is_identifier(i) || tokens_[i].kind == Token::Kind::number ||
         is_one_of(tokens_.text(i), {")", "]"});
}

// Whether the name at i, which is followed by =, is declared there.
bool KernelBody::is_declaration_of(std::size_t i) const {
  std::size_t begin = i;
  while (begin > kernel_.body_open && !is_one_of(tokens_.text(begin - 1), {";", "{", "}"}) &&
         !(tokens_.is(begin - 1, "(") && tokens_.is(begin - 2, "for")))
    --begin;
  std::size_t end = i;
  while (end < kernel_.body_close && !tokens_.is(end, ";")) ++end;
  const auto declaration = read_declaration({begin, end});
  return declaration && std::ranges::any_of(declaration->declarators, [&](const Declarator& each) {
           return each.name == tokens_.text(i) && each.initializer.begin == i + 2;
         });
}

std::size_t KernelBody::end_of_statement(std::size_t i) const {
  const std::string_view word = tokens_.text(i);
  if (tokens_[i].kind == Token::Kind::directive) return i + 1;
  if (word == "{") return tokens_.partner(i) + 1;
  if (word == "for" || word == "while" || word == "switch" || word == "if") {
    std::size_t open = i + 1;
    if (tokens_.is(open, "constexpr")) ++open;
    std::size_t end = end_of_statement(tokens_.skip_directives(tokens_.partner(open) + 1));
    if (word == "if" && tokens_.is(tokens_.skip_directives(end), "else"))
      end = end_of_statement(tokens_.skip_directives(tokens_.skip_directives(end) + 1));
    return end;
  }
  if (word == "do") {
    const std::size_t end = end_of_statement(tokens_.skip_directives(i + 1));
    return tokens_.partner(end + 1) + 2;
  }
  while (i < kernel_.body_close && !tokens_.is(i, ";")) {
    if (is_one_of(tokens_.text(i), {"(", "[", "{"})) i = tokens_.partner(i);
    ++i;
  }
  return i + 1;
}

// Whether the tokens [begin, end) may change the variable.
bool KernelBody::changes(std::string_view name, std::size_t begin, std::size_t end) const {
  for (std::size_t i = begin; i < end; ++i) {
    if (!tokens_.is(i, name)) continue;
    const bool is_address = tokens_.is(i - 1, "&") && !is_operand_end(i - 2);
    if (is_assignment(tokens_.text(i + 1)) || is_one_of(tokens_.text(i + 1), {"++", "--"}) ||
        is_one_of(tokens_.text(i - 1), {"++", "--"}) || is_address)
      return true;
  }
  return false;
}

bool KernelBody::is_pure(const Part& part, bool uniform) const {
  for (std::size_t i = part.begin; i < part.end; ++i)
    if (!is_pure_token(i, part, uniform)) return false;
  return true;
}

bool KernelBody::is_pure_token(std::size_t i, const Part& part, bool uniform) const {
  const Token& token = tokens_[i];
  const std::string_view word = tokens_.text(i);
  switch (token.kind) {
    case Token::Kind::number:
    case Token::Kind::directive:
      return true;
    case Token::Kind::text:
      return word.starts_with('\'');
    case Token::Kind::punctuation:
      if (word == "*" || word == "&") return i > part.begin && is_operand_end(i - 1);
      if (word == ".") return is_index(tokens_.text(i - 1));
      return !is_assignment(word) && !is_one_of(word, {"++", "--", "[", "{", "->", ",", "::"});
    case Token::Kind::identifier:
      break;
    default:
      return false;
  }
  if (tokens_.is(i - 1, ".")) return is_one_of(word, {"x", "y", "z"});
  if (is_index(word))
    return !uniform || word != "threadIdx" || (rows_ && is_one_of(tokens_.text(i + 2), {"y", "z"}));
  if (is_built_in_type(word) || is_plain_type(word) || word == "static_cast" || word == "sizeof")
    return true;
  if (tokens_.is(i + 1, "(") || tokens_.is(i + 1, "[")) return false;
  if (memory_.contains(word)) return false;
  const bool is_known = known_.contains(std::string(word));
  if (is_known) return !uniform || !thread_dependent_.contains(std::string(word));
  if (declared_.contains(std::string(word))) return false;
  // The word is a parameter or a constant of the program, no variable of this kernel.
  return !modified_.contains(word);
}

std::optional<Declaration> KernelBody::read_declaration(const Part& part) const {
  std::size_t i = part.begin;
  const auto skip_qualifiers = [&] {
    while (is_one_of(tokens_.text(i), {"const", "register", "constexpr"})) ++i;
  };
  Declaration declaration;
  std::string type;
  skip_qualifiers();
  if (is_built_in_type(tokens_.text(i))) {
    declaration.has_plain_type = true;
    while (is_built_in_type(tokens_.text(i)) || tokens_.is(i, "const")) {
      if (!tokens_.is(i, "const")) type += std::string(tokens_.text(i)) + " ";
      ++i;
    }
  } else {
    if (!tokens_.is_identifier(i) || tokens_.is(i, "return")) return std::nullopt;
    declaration.has_plain_type =
        is_plain_type(tokens_.text(i)) || is_template_type(tokens_.text(i));
    type = std::string(tokens_.text(i++)) + " ";
    while (tokens_.is(i, "::") || tokens_.is(i, "<")) {
      declaration.has_plain_type = false;
      if (tokens_.is(i, "<")) {
        const std::size_t close = tokens_.closing_angle(i);
        if (close == 0) return std::nullopt;
        type += tokens_.in_one_line(i, close + 1);
        i = close + 1;
      } else {
        type += "::" + std::string(tokens_.text(i + 1)) + " ";
        i += 2;
      }
    }
    skip_qualifiers();
  }
  while (i < part.end) {
    Declarator declarator;
    declarator.type = type;
    while (is_one_of(tokens_.text(i), {"*", "&", "const", "__restrict__", "__restrict"})) {
      if (tokens_.is(i, "*")) declarator.type += "*", declaration.has_plain_type = true;
      if (tokens_.is(i, "&")) declarator.is_simple = false;
      ++i;
    }
    if (!tokens_.is_identifier(i)) return std::nullopt;
    declarator.name = tokens_.text(i++);
    if (i < part.end && tokens_.is(i, "[")) {
      const std::size_t begin = i;
      while (i < part.end && tokens_.is(i, "[")) i = tokens_.partner(i) + 1;
      declarator.extents = {begin, i};
      declarator.is_simple = false;
    }
    const std::string_view next = i < part.end ? tokens_.text(i) : "";
    if (next == "=") {
      const std::size_t begin = ++i;
      while (i < part.end && !tokens_.is(i, ",")) {
        if (is_one_of(tokens_.text(i), {"(", "[", "{"})) i = tokens_.partner(i);
        if (tokens_.is(i, "<")) i = std::max(i, template_end(i));
        ++i;
      }
      declarator.initializer = {begin, i};
      if (tokens_.is(begin, "{")) declarator.is_simple = false;
    } else if (!next.empty() && next != ",") {
      if (!is_one_of(next, {"(", "{"})) return std::nullopt;
      declarator.is_simple = false;
      while (i < part.end && !tokens_.is(i, ",")) {
        if (is_one_of(tokens_.text(i), {"(", "[", "{"})) i = tokens_.partner(i);
        ++i;
      }
    }
    declaration.declarators.push_back(declarator);
    if (i < part.end && !tokens_.is(i++, ",")) return std::nullopt;
  }
  if (declaration.declarators.empty()) return std::nullopt;
  return declaration;
}

// The end of the template arguments of a static_cast or reinterpret_cast; else 0.
std::size_t KernelBody::template_end(std::size_t i) const {
  return tokens_.is(i - 1, "static_cast") || tokens_.is(i - 1, "reinterpret_cast")
             ? tokens_.closing_angle(i)
             : 0;
}

// Whether the kernel's template head has this word as a type.
bool KernelBody::is_template_type(std::string_view word) const {
  for (std::size_t i = kernel_.begin; i + 1 < kernel_.params_open; ++i)
    if (is_one_of(tokens_.text(i), {"typename", "class"}) && tokens_.is(i + 1, word)) return true;
  return false;
}

// Whether the body declares the name more than once. Such names are not analysed.
bool KernelBody::is_declared_twice(const std::string& name) const {
  int times = 0;
  for (std::size_t i = kernel_.body_open; i < kernel_.body_close; ++i)
    if (tokens_.is(i, name) && is_one_of(tokens_.text(i + 1), {"=", ";", ",", "[", ":"}) &&
        follows_type(i))
      ++times;
  return times > 1;
}

// Whether the tokens before i can be the type of a declaration, and not a factor.
bool KernelBody::follows_type(std::size_t i) const {
  std::size_t last = i - 1;
  while (is_one_of(tokens_.text(last), {"*", "&", "const", "__restrict__"})) --last;
  if (!tokens_.is_identifier(last) || tokens_.is(last, "return")) return false;
  if (last == i - 1) return true;
  return is_built_in_type(tokens_.text(last)) || tokens_.is_identifier(last - 1) ||
         is_one_of(tokens_.text(last - 1), {";", "{", "}", "(", "::", ">"});
}

// The declarator's type, with the const of what a pointer points to.
std::string KernelBody::type_of(const Part& statement, const Declarator& declarator) const {
  const bool is_pointer = declarator.type.ends_with('*');
  bool is_const = false;
  for (std::size_t i = statement.begin; i < statement.end && !tokens_.is(i, "*"); ++i)
    is_const |= tokens_.is(i, "const");
  return (is_pointer && is_const ? "const " : "") + declarator.type;
}

}  // namespace wherry::tool
