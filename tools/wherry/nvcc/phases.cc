#include "nvcc/phases.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "nvcc/parameters.h"

namespace wherry::tool {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_built_in_type(std::string_view word) {
  return is_one_of(word, {"int", "unsigned", "signed", "char", "short", "long", "float", "double",
                          "bool"});
}
// Types that are plain numbers.
bool is_plain_type(std::string_view word) {
  constexpr std::array names = {"size_t",  "int8_t",   "int16_t",  "int32_t",  "int64_t", "uint8_t",
                                "uint16_t", "uint32_t", "uint64_t", "uint",     "uchar",   "ushort",
                                "ptrdiff_t", "float1", "float2",   "float3",   "float4",  "double2",
                                "int2",    "int3",     "int4",     "uint2",    "uint3",   "uint4",
                                "uchar4"};
  return std::ranges::find(names, word) != names.end();
}
bool is_assignment(std::string_view word) {
  return is_one_of(word, {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="});
}
bool is_index(std::string_view word) {
  return is_one_of(word, {"threadIdx", "blockIdx", "blockDim", "gridDim"});
}

// Token indices [begin, end).
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Declarator {
  std::string name;
  std::string type;  // with * and without const: of its elements if it is an array
  Part initializer;  // empty: none
  bool is_simple = true;  // no reference, array, or initializer in ( ) or { }
};
struct Declaration {
  std::vector<Declarator> declarators;
  bool has_plain_type = false;  // can be copied and be left uninitialized
};

// A variable that parts after its own can see.
struct Local {
  std::string name;
  std::string prologue;  // what makes it visible in a later part; empty: it is the block's
};

class Splitter {
 public:
  Splitter(const Tokens& tokens, const DeviceCode& code, const DeviceFunction& kernel)
      : tokens_(tokens), code_(code), kernel_(kernel) {}

  std::optional<std::vector<Edit>> run() {
    read_names();
    if (has_forbidden_words()) return std::nullopt;
    const std::string parameters = copies_of_parameters();
    split_scope({kernel_.body_open + 1, kernel_.body_close});
    if (failed_) return std::nullopt;
    edits_.push_back({tokens_[kernel_.body_open].end, tokens_[kernel_.body_open].end, parameters});
    return std::move(edits_);
  }

 private:
  // ---- What the body says about names ----

  void read_names() {
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
    for (const Parameter& parameter :
         function_parameters(tokens_, kernel_.params_open, kernel_.params_close))
      parameters_.push_back(parameter);
  }

  // Whether the token at i ends an operand, so that an operator after it is a binary one.
  bool is_operand_end(std::size_t i) const {
    return tokens_.is_identifier(i) || tokens_[i].kind == Token::Kind::number ||
           is_one_of(tokens_.text(i), {")", "]"});
  }

  // Whether the name at i, which is followed by =, is declared there.
  bool is_declaration_of(std::size_t i) const {
    std::size_t begin = i;
    while (begin > kernel_.body_open && !is_one_of(tokens_.text(begin - 1), {";", "{", "}"}) &&
           !(tokens_.is(begin - 1, "(") && tokens_.is(begin - 2, "for")))
      --begin;
    std::size_t end = i;
    while (end < kernel_.body_close && !tokens_.is(end, ";")) ++end;
    const auto declaration = read_declaration({begin, end});
    return declaration &&
           std::ranges::any_of(declaration->declarators, [&](const Declarator& each) {
             return each.name == tokens_.text(i) && each.initializer.begin == i + 2;
           });
  }

  bool has_forbidden_words() const {
    for (std::size_t i = kernel_.body_open + 1; i < kernel_.body_close; ++i) {
      if (is_one_of(tokens_.text(i), {"goto", "asm", "__asm__", "try", "co_await", "alloca"})) return true;
      if (DeviceCode::begins_lambda(tokens_, i)) return true;
    }
    return false;
  }

  // A parameter that the kernel changes is a variable of each thread.
  std::string copies_of_parameters() {
    std::string text;
    for (const Parameter& parameter : parameters_) {
      if (!modified_.contains(parameter.name)) continue;
      if (parameter.is_pack) failed_ = true;
      text += fmt::format(" ::wherry::kernels::PerThread<decltype({0})> wherry_all_{0}({0}, blockDim);",
                          parameter.name);
      locals_.push_back({parameter.name, reference_to(parameter.name)});
      by_thread_.insert(parameter.name);
    }
    return text;
  }

  static std::string reference_to(const std::string& name) {
    return fmt::format("auto& {0} = wherry_all_{0}[wherry_rank]; (void){0}; ", name);
  }

  // ---- Statements ----

  std::size_t end_of_statement(std::size_t i) const {
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

  bool has_barrier(const Part& part) const {
    for (std::size_t i = part.begin; i < part.end; ++i)
      if (tokens_.is(i, "__syncthreads")) return true;
    return false;
  }
  bool has_word(const Part& part, std::string_view word) const {
    for (std::size_t i = part.begin; i < part.end; ++i)
      if (tokens_.is(i, word)) return true;
    return false;
  }
  bool is_barrier(const Part& part) const {
    return tokens_.is(part.begin, "__syncthreads") && part.end == part.begin + 4;
  }

  // The statements directly in a scope around barriers. `scope` is inside its braces.
  void split_scope(const Part& scope) {
    const std::size_t outer_locals = locals_.size();
    std::vector<Part> run;
    for (std::size_t i = scope.begin; i < scope.end && !failed_;) {
      const Part statement{i, std::min(end_of_statement(i), scope.end)};
      i = statement.end;
      if (tokens_[statement.begin].kind == Token::Kind::directive) continue;
      if (is_barrier(statement)) {
        close_run(run, scope);
        remove(statement);
      } else if (has_barrier(statement)) {
        close_run(run, scope);
        split_statement(statement);
      } else if (has_word(statement, "__shared__") || is_of_block(statement)) {
        close_run(run, scope);
      } else {
        run.push_back(statement);
        if (const auto declaration = read_declaration({statement.begin, statement.end - 1}))
          for (const Declarator& each : declaration->declarators) declared_.insert(each.name);
      }
    }
    close_run(run, scope);
    while (locals_.size() > outer_locals) {
      by_thread_.erase(locals_.back().name);
      known_.erase(locals_.back().name);
      locals_.pop_back();
    }
  }

  void remove(const Part& part) {
    edits_.push_back({tokens_[part.begin].begin, tokens_[part.end - 1].begin, ""});
  }

  // A statement with barriers inside. It stays what it is, for the block as a whole.
  void split_statement(const Part& statement) {
    const std::size_t first = statement.begin;
    const std::string_view word = tokens_.text(first);
    if (word == "{") return split_scope({first + 1, statement.end - 1});
    std::size_t open = first + 1;
    if (tokens_.is(open, "constexpr")) ++open;
    if ((word != "for" && word != "if") || !tokens_.is(open, "(")) return fail();
    const Part head{open + 1, tokens_.partner(open)};
    const std::size_t locals = locals_.size();
    if (word == "for" ? !is_loop_of_block(head) : !is_uniform(head)) return fail();
    const std::size_t body = tokens_.skip_directives(head.end + 1);
    const std::size_t body_end = end_of_statement(body);
    split_body({body, body_end});
    const std::size_t other = tokens_.skip_directives(body_end);
    if (word == "if" && other < statement.end && tokens_.is(other, "else"))
      split_body({tokens_.skip_directives(other + 1), statement.end});
    while (locals_.size() > locals) {
      known_.erase(locals_.back().name);
      locals_.pop_back();
    }
  }

  void split_body(const Part& body) {
    if (tokens_.is(body.begin, "{")) return split_scope({body.begin + 1, body.end - 1});
    if (!has_barrier(body)) {
      // One statement of threads.
      std::vector<Part> run{body};
      return close_run(run, body);
    }
    if (is_barrier(body)) return remove(body);
    split_statement(body);
  }

  void fail() { failed_ = true; }

  // for (int i = 0; i < n; ++i), the same for all threads: only the head changes its variables.
  bool is_loop_of_block(const Part& head) {
    std::size_t first = head.begin;
    while (first < head.end && !tokens_.is(first, ";")) ++first;
    std::size_t second = first + 1;
    while (second < head.end && !tokens_.is(second, ";")) ++second;
    if (second >= head.end) return false;
    const auto declaration = read_declaration({head.begin, first});
    if (!declaration) return false;
    for (const Declarator& each : declaration->declarators) {
      if (!each.is_simple || each.initializer.begin == each.initializer.end ||
          !is_uniform(each.initializer))
        return false;
    }
    for (const Declarator& each : declaration->declarators) {
      if (changes(each.name, head.end, end_of_statement(tokens_.skip_directives(head.end + 1))))
        return false;
      known_.insert(each.name);
      locals_.push_back({each.name, ""});
    }
    // Inside the head the variables may be changed.
    return is_uniform({first + 1, second}) && is_uniform_change({second + 1, head.end});
  }

  // Whether the tokens [begin, end) may change the variable.
  bool changes(std::string_view name, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      if (!tokens_.is(i, name)) continue;
      const bool is_address = tokens_.is(i - 1, "&") && !is_operand_end(i - 2);
      if (is_assignment(tokens_.text(i + 1)) || is_one_of(tokens_.text(i + 1), {"++", "--"}) ||
          is_one_of(tokens_.text(i - 1), {"++", "--"}) || is_address)
        return true;
    }
    return false;
  }

  bool is_uniform_change(const Part& part) const {
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const std::string_view word = tokens_.text(i);
      if (is_assignment(word) || is_one_of(word, {"++", "--", ","})) continue;
      if (!is_pure_token(i, part, true)) return false;
    }
    return true;
  }

  // ---- Expressions ----

  // The same for all threads, and at any time.
  bool is_uniform(const Part& part) const { return is_pure(part, true); }

  bool is_pure(const Part& part, bool uniform) const {
    for (std::size_t i = part.begin; i < part.end; ++i)
      if (!is_pure_token(i, part, uniform)) return false;
    return true;
  }

  bool is_pure_token(std::size_t i, const Part& part, bool uniform) const {
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
    if (is_index(word)) return !uniform || word != "threadIdx";
    if (is_built_in_type(word) || is_plain_type(word) || word == "static_cast" || word == "sizeof")
      return true;
    if (tokens_.is(i + 1, "(") || tokens_.is(i + 1, "[")) return false;
    if (by_thread_.contains(std::string(word)) || memory_.contains(word)) return false;
    const bool is_known = known_.contains(std::string(word));
    if (is_known) return !uniform || !thread_dependent_.contains(std::string(word));
    if (declared_.contains(std::string(word))) return false;
    // A parameter, or a constant of the program: it is no variable of this kernel.
    return !modified_.contains(word);
  }

  // ---- Declarations ----

  std::optional<Declaration> read_declaration(const Part& part) const {
    std::size_t i = part.begin;
    const auto skip_qualifiers = [&] {
      while (is_one_of(tokens_.text(i), {"const", "register"})) ++i;
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
      declaration.has_plain_type = is_plain_type(tokens_.text(i)) || is_template_type(tokens_.text(i));
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
        // A pointer to const.
        ++i;
      }
      if (!tokens_.is_identifier(i)) return std::nullopt;
      declarator.name = tokens_.text(i++);
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
        if (!is_one_of(next, {"[", "(", "{"})) return std::nullopt;
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

  // Of the template arguments that static_cast and the like have.
  std::size_t template_end(std::size_t i) const {
    return tokens_.is(i - 1, "static_cast") || tokens_.is(i - 1, "reinterpret_cast")
               ? tokens_.closing_angle(i)
               : 0;
  }

  // Whether the kernel's template head has this word as a type.
  bool is_template_type(std::string_view word) const {
    for (std::size_t i = kernel_.begin; i + 1 < kernel_.params_open; ++i)
      if (is_one_of(tokens_.text(i), {"typename", "class"}) && tokens_.is(i + 1, word)) return true;
    return false;
  }

  // Whether the statement declares constants of the block, which need no thread. Then it stays
  // outside of the loops.
  bool is_of_block(const Part& statement) {
    const auto declaration = read_declaration({statement.begin, statement.end - 1});
    if (!declaration) return false;
    for (const Declarator& each : declaration->declarators)
      if (!each.is_simple || modified_.contains(each.name) ||
          each.initializer.begin == each.initializer.end || !is_uniform(each.initializer) ||
          locally_declared_twice(each.name))
        return false;
    for (const Declarator& each : declaration->declarators) {
      known_.insert(each.name);
      locals_.push_back({each.name, ""});
    }
    return true;
  }

  // Names that are declared more than once in the body are not analysed.
  bool locally_declared_twice(const std::string& name) const {
    int times = 0;
    for (std::size_t i = kernel_.body_open; i < kernel_.body_close; ++i)
      if (tokens_.is(i, name) && is_one_of(tokens_.text(i + 1), {"=", ";", ",", "["}) &&
          (tokens_.is_identifier(i - 1) || tokens_.is(i - 1, "*")) && !tokens_.is(i - 1, "return"))
        ++times;
    return times > 1;
  }

  // ---- Parts ----

  // Puts the statements into a loop over the threads.
  void close_run(std::vector<Part>& run, const Part& scope) {
    if (run.empty() || failed_) return;
    const std::size_t begin = run.front().begin;
    const std::size_t end = run.back().end;
    const bool is_last =
        tokens_.skip_directives(end) == kernel_.body_close && scope.end == kernel_.body_close;
    std::string prologue;
    for (const Local& local : locals_) prologue += local.prologue;
    std::string storage;
    for (const Part& statement : run) {
      if (has_jump_out(statement) || (!is_last && has_word(statement, "return"))) return fail();
      storage += cross(statement, end, scope.end);
    }
    edits_.push_back({tokens_[begin].begin, tokens_[begin].begin,
                      fmt::format("{}::wherry::kernels::for_threads(blockDim, [&](const uint3 "
                                  "threadIdx, const unsigned wherry_rank) "
                                  "__attribute__((always_inline)) {{ (void)threadIdx; "
                                  "(void)wherry_rank; {}",
                                  storage, prologue)});
    edits_.push_back({tokens_[end - 1].end, tokens_[end - 1].end, " });"});
    run.clear();
  }

  // break and continue of a loop outside of the statement.
  bool has_jump_out(const Part& statement) const {
    for (std::size_t i = statement.begin; i < statement.end; ++i) {
      const std::string_view word = tokens_.text(i);
      if (word == "for" || word == "while" || word == "do" || word == "switch") {
        i = end_of_statement(i) - 1;
      } else if (word == "break" || word == "continue") {
        return true;
      }
    }
    return false;
  }

  // Makes the variables that the statement declares visible in later parts, if those use them.
  // Returns what stores them.
  std::string cross(const Part& statement, std::size_t run_end, std::size_t scope_end) {
    const auto declaration = read_declaration({statement.begin, statement.end - 1});
    if (!declaration) {
      // A type, an alias or something that is not understood: harmless if no later part uses it.
      if (is_one_of(tokens_.text(statement.begin), {"using", "typedef", "struct", "class", "enum"}))
        fail();
      return {};
    }
    std::string storage;
    std::string replacement;
    bool is_replaced = false;
    const auto is_used_later = [&](const Declarator& each) {
      return has_word({run_end, scope_end}, each.name);
    };
    const bool is_used = std::ranges::any_of(declaration->declarators, is_used_later);
    for (const Declarator& each : declaration->declarators) {
      const bool has_value = each.initializer.begin != each.initializer.end;
      const std::string value = tokens_.in_one_line(each.initializer.begin, each.initializer.end);
      if (locally_declared_twice(each.name)) {
        if (is_used) fail();
        continue;
      }
      if (each.is_simple && has_value && !modified_.contains(each.name) &&
          is_pure(each.initializer, false)) {
        // Computed again; here it is declared as it was.
        if (!is_uniform(each.initializer)) thread_dependent_.insert(each.name);
        known_.insert(each.name);
        const std::string type = each.type.starts_with("auto") ? "auto" : type_of(statement, each);
        const std::string again =
            fmt::format("{0} wherry_{1} = {2}; const auto {1} = wherry_{1}; (void){1}; ",
                        type, each.name, value);
        locals_.push_back({each.name, again});
        replacement += again;
        continue;
      }
      if (!is_used) continue;
      if (!each.is_simple || !declaration->has_plain_type) fail();
      is_replaced = true;
      storage += fmt::format("::wherry::kernels::PerThread<{0}> wherry_all_{1}; ",
                             type_of(statement, each), each.name);
      replacement += reference_to(each.name);
      if (has_value) replacement += fmt::format("{} = {}; ", each.name, value);
      locals_.push_back({each.name, reference_to(each.name)});
      by_thread_.insert(each.name);
    }
    if (is_replaced) {
      std::string lines;
      const std::size_t from = tokens_[statement.begin].begin;
      const std::size_t to = tokens_[statement.end - 1].end;
      for (std::size_t i = from; i < to; ++i)
        if (tokens_.source()[i] == '\n') lines += '\n';
      edits_.push_back({from, to, replacement + lines});
    }
    return storage;
  }

  // The declarator's type, with the const of what a pointer points to.
  std::string type_of(const Part& statement, const Declarator& declarator) const {
    const bool is_pointer = declarator.type.ends_with('*');
    bool is_const = false;
    for (std::size_t i = statement.begin; i < statement.end && !tokens_.is(i, "*"); ++i)
      is_const |= tokens_.is(i, "const");
    return (is_pointer && is_const ? "const " : "") + declarator.type;
  }

  const Tokens& tokens_;
  const DeviceCode& code_;
  const DeviceFunction& kernel_;
  bool failed_ = false;
  std::vector<Edit> edits_;
  std::vector<Parameter> parameters_;
  std::vector<Local> locals_;                // visible in later parts, outer scopes first
  std::set<std::string_view> modified_;      // names that the body may change
  std::set<std::string_view> memory_;        // words of device variables
  std::set<std::string> known_;              // variables that can be computed again
  std::set<std::string> thread_dependent_;   // of these, those that differ between threads
  std::set<std::string> by_thread_;          // variables with an element for each thread
  std::set<std::string> declared_;           // variables of threads
};

}  // namespace

std::optional<std::vector<Edit>> split_into_phases(const Tokens& tokens, const DeviceCode& code,
                                                   const DeviceFunction& kernel) {
  return Splitter(tokens, code, kernel).run();
}

}  // namespace wherry::tool
