#include "nvcc/phases.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "nvcc/is_one_of.h"
#include "nvcc/kernel_body.h"
#include "nvcc/thread_number.h"

namespace wherry::tool {
namespace {

// A variable that later parts of the body can see.
struct Local {
  std::string name;
  std::string prologue;  // declares it in a later part; empty for the block's own
};

// Whether the name is a variable of the kernel with the result of this_thread_block().
bool is_block_group(const Tokens& tokens, const DeviceFunction& kernel, std::string_view name) {
  for (std::size_t i = kernel.body_open; i < kernel.body_close; ++i) {
    if (!tokens.is(i, "this_thread_block") || !tokens.is(i + 1, "(")) continue;
    std::size_t at = i;
    while (tokens.is(at - 1, "::")) at -= 2;
    if (tokens.is(at - 1, "=") && tokens.is(at - 2, name)) return true;
  }
  return false;
}

// The number of tokens of the barrier at i (__syncthreads(); or group::sync(block); or
// block.sync();), 0 if there is none.
std::size_t barrier_length(const Tokens& tokens, const DeviceFunction& kernel, std::size_t i) {
  if (tokens.is(i, "__syncthreads") && tokens.is(i + 3, ";")) return 4;
  if (tokens.is(i + 1, ".") && tokens.is(i + 2, "sync") && tokens.is(i + 5, ";") &&
      is_block_group(tokens, kernel, tokens.text(i)))
    return 6;
  const std::size_t name = tokens.is(i + 1, "::") ? i + 2 : i;
  if (tokens.is(name, "sync") && tokens.is(name + 3, ")") && tokens.is(name + 4, ";") &&
      is_block_group(tokens, kernel, tokens.text(name + 2)))
    return name + 5 - i;
  return 0;
}

class Splitter {
 public:
  Splitter(const Tokens& tokens, const DeviceCode& code, const DeviceFunction& kernel)
      : tokens_(tokens), kernel_(kernel), body_(tokens, code, kernel) {}

  // Splits at loops and not at barriers.
  void use_rows(const std::optional<Guard>& guard) {
    rows_ = true;
    guard_ = guard;
    body_.look_at_rows();
  }

  std::optional<std::vector<Edit>> run() {
    if (has_forbidden_words()) return std::nullopt;
    const std::string parameters = copies_of_parameters();
    split_scope({kernel_.body_open + 1, kernel_.body_close});
    if (failed_ || (rows_ && !has_inner_loop_)) return std::nullopt;
    edits_.push_back({tokens_[kernel_.body_open].end, tokens_[kernel_.body_open].end, parameters});
    return std::move(edits_);
  }

 private:
  bool has_forbidden_words() const {
    for (std::size_t i = kernel_.body_open + 1; i < kernel_.body_close; ++i) {
      if (is_one_of(tokens_.text(i), {"goto", "asm", "__asm__", "try", "co_await", "alloca"}))
        return true;
      if (DeviceCode::begins_lambda(tokens_, i)) return true;
    }
    return false;
  }

  // Parameters that the kernel changes become variables of each thread.
  std::string copies_of_parameters() {
    std::string text;
    for (const Parameter& parameter : body_.parameters()) {
      if (!body_.is_modified(parameter.name)) continue;
      if (parameter.is_pack) failed_ = true;
      text +=
          fmt::format(" ::wherry::kernels::PerThread<decltype({0})> wherry_all_{0}({0}, blockDim);",
                      parameter.name);
      locals_.push_back({parameter.name, reference_to(parameter.name)});
      body_.declare(parameter.name);
    }
    return text;
  }

  static std::string reference_to(const std::string& name) {
    return fmt::format("auto& {0} = wherry_all_{0}[wherry_rank]; (void){0}; ", name);
  }

  // ---- Statements ----

  bool has_barrier(const Part& part) const {
    return body_.has_word(part, "__syncthreads") || body_.has_word(part, "sync");
  }
  bool is_barrier(const Part& part) const {
    return barrier_length(tokens_, kernel_, part.begin) == part.end - part.begin;
  }

  // Remembers variables that differ between the threads of a row. close_run() has not yet put their
  // declarations into a loop over the threads.
  void remember(const Part& statement) {
    const auto declaration = body_.read_declaration({statement.begin, statement.end - 1});
    if (!declaration) return;
    for (const Declarator& each : declaration->declarators)
      if (!is_uniform(each.initializer)) pending_.insert(each.name);
  }

  // Splits the statements directly in a scope around barriers. `scope`: without its braces.
  void split_scope(const Part& scope) {
    const std::size_t outer_locals = locals_.size();
    std::vector<Part> run;
    for (std::size_t i = scope.begin; i < scope.end && !failed_;) {
      const Part statement{i, std::min(body_.end_of_statement(i), scope.end)};
      i = statement.end;
      if (tokens_[statement.begin].kind == Token::Kind::directive) continue;
      if (is_barrier(statement)) {
        close_run(run, scope);
        remove(statement);
      } else if (is_guard(statement)) {
        close_run(run, scope);
        split_guard(statement);
      } else if (rows_ ? is_inner_loop(statement) : has_barrier(statement)) {
        close_run(run, scope);
        split_statement(statement);
      } else if (body_.has_word(statement, "__shared__") || is_of_block(statement)) {
        close_run(run, scope);
      } else {
        run.push_back(statement);
        remember(statement);
        if (const auto declaration = body_.read_declaration({statement.begin, statement.end - 1}))
          for (const Declarator& each : declaration->declarators) body_.declare(each.name);
      }
    }
    close_run(run, scope);
    while (locals_.size() > outer_locals) {
      body_.forget(locals_.back().name);
      locals_.pop_back();
    }
  }

  bool is_guard(const Part& statement) const {
    return guard_ && tokens_.is(statement.begin, "if") &&
           guard_->condition.begin == statement.begin + 2;
  }
  // Removes the guard's condition: the loop over the threads runs only those for which it holds.
  void split_guard(const Part& statement) {
    const Part& condition = guard_->condition;
    if (guard_->returns) {
      const std::size_t from = tokens_[statement.begin].begin;
      edits_.push_back(
          {from, tokens_[statement.end - 1].end, lines_in(from, tokens_[statement.end - 1].end)});
      return;
    }
    const std::size_t from = tokens_[condition.begin].begin;
    const std::size_t to = tokens_[condition.end].begin;
    edits_.push_back({from, to, "true" + lines_in(from, to)});
    split_body({tokens_.skip_directives(condition.end + 1), statement.end});
  }
  // The line ends in the text [from, to).
  std::string lines_in(std::size_t from, std::size_t to) const {
    std::string lines;
    for (std::size_t i = from; i < to; ++i)
      if (tokens_.source()[i] == '\n') lines += '\n';
    return lines;
  }

  // Whether the loop can be outside of the loop over the threads, and is better there.
  bool is_inner_loop(const Part& statement) {
    if (!tokens_.is(statement.begin, "for")) return false;
    const Part head{statement.begin + 2, tokens_.partner(statement.begin + 1)};
    const std::size_t body = tokens_.skip_directives(head.end + 1);
    if (!has_neighbours({body, statement.end}) || has_jump_out({body, statement.end}) ||
        body_.has_word(statement, "return"))
      return false;
    const std::size_t locals = locals_.size();
    const bool is_same = is_loop_of_block(head);
    while (locals_.size() > locals) {
      body_.forget(locals_.back().name);
      locals_.pop_back();
    }
    has_inner_loop_ |= is_same;
    return is_same;
  }

  // Whether some subscripts grow by 1 from thread to thread, and all others are the same for all.
  bool has_neighbours(const Part& part) const {
    bool found = false;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      if (!tokens_.is(i, "[")) continue;
      const std::size_t close = tokens_.partner(i);
      for (std::size_t j = i + 1; j < close; ++j) {
        const std::string name(tokens_.text(j));
        if (name == "[" || name == "threadIdx" || name == "->") return false;
        if (!tokens_.is_identifier(j) || !differs_in_row(name, part)) continue;
        // A multiplied variable, also in parentheses, grows by more than 1.
        std::size_t before = j - 1;
        std::size_t after = j + 1;
        while (tokens_.is(before, "(") || tokens_.is(before, "+") || tokens_.is(before, "-"))
          --before;
        while (tokens_.is(after, ")")) ++after;
        for (const std::string_view word : {"*", "/", "%", "<", ">", "?"})
          if (tokens_.is(after, word) || (tokens_.is(j - 1, word))) return false;
        if (tokens_.is(before, "*") && tokens_.is(before + 1, "(")) return false;
        found = true;
      }
      i = close;
    }
    return found;
  }
  // Whether the variable differs between the threads of a row, as far as is known.
  bool differs_in_row(const std::string& name, const Part& part) const {
    if (body_.is_known(name)) return body_.differs_between_threads(name);
    // A variable that the part changes belongs to a loop in it.
    const bool is_inner = body_.changes(name, part.begin, part.end);
    return !is_inner && pending_.contains(name);
  }

  void remove(const Part& part) {
    edits_.push_back({tokens_[part.begin].begin, tokens_[part.end - 1].begin, ""});
  }

  // Splits inside a statement that contains barriers. The block as a whole executes its head.
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
    const std::size_t body_end = body_.end_of_statement(body);
    split_body({body, body_end});
    const std::size_t other = tokens_.skip_directives(body_end);
    if (word == "if" && other < statement.end && tokens_.is(other, "else"))
      split_body({tokens_.skip_directives(other + 1), statement.end});
    while (locals_.size() > locals) {
      body_.forget(locals_.back().name);
      locals_.pop_back();
    }
  }

  void split_body(const Part& body) {
    if (tokens_.is(body.begin, "{")) return split_scope({body.begin + 1, body.end - 1});
    if (rows_ ? !is_inner_loop(body) : !has_barrier(body)) {
      // The body is one statement that each thread executes.
      std::vector<Part> run{body};
      return close_run(run, body);
    }
    if (is_barrier(body)) return remove(body);
    split_statement(body);
  }

  void fail() { failed_ = true; }
  // Whether the value is the same for all threads, and at any time.
  bool is_uniform(const Part& part) const { return body_.is_pure(part, true); }

  // Whether a loop such as for (int i = 0; i < n; ++i) is the same for all threads: only the head
  // changes its variables.
  bool is_loop_of_block(const Part& head) {
    std::size_t first = head.begin;
    while (first < head.end && !tokens_.is(first, ";")) ++first;
    std::size_t second = first + 1;
    while (second < head.end && !tokens_.is(second, ";")) ++second;
    if (second >= head.end) return false;
    const auto declaration = body_.read_declaration({head.begin, first});
    if (!declaration) return false;
    for (const Declarator& each : declaration->declarators) {
      if (!each.is_simple || each.initializer.begin == each.initializer.end ||
          !is_uniform(each.initializer))
        return false;
    }
    for (const Declarator& each : declaration->declarators) {
      if (body_.changes(each.name, head.end,
                        body_.end_of_statement(tokens_.skip_directives(head.end + 1))))
        return false;
      body_.know(each.name, false);
      locals_.push_back({each.name, ""});
    }
    // The last part of the head may change the variables.
    return is_uniform({first + 1, second}) && is_uniform_change({second + 1, head.end});
  }

  bool is_uniform_change(const Part& part) const {
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const std::string_view word = tokens_.text(i);
      if (is_assignment(word) || is_one_of(word, {"++", "--", ","})) continue;
      if (!body_.is_pure_token(i, part, true)) return false;
    }
    return true;
  }

  // Whether the statement declares constants of the block, the same for all threads. Then it stays
  // outside of the loops over threads.
  bool is_of_block(const Part& statement) {
    if (tokens_.is(statement.begin, "constexpr") || tokens_.is(statement.begin, "static"))
      return true;
    if (declares_block_group(statement)) return true;
    const auto declaration = body_.read_declaration({statement.begin, statement.end - 1});
    if (!declaration) return false;
    for (const Declarator& each : declaration->declarators)
      if (!each.is_simple || body_.is_modified(each.name) ||
          each.initializer.begin == each.initializer.end || !is_uniform(each.initializer) ||
          body_.is_declared_twice(each.name))
        return false;
    for (const Declarator& each : declaration->declarators) {
      body_.know(each.name, false);
      locals_.push_back({each.name, ""});
    }
    return true;
  }

  bool declares_block_group(const Part& statement) const {
    return body_.has_word(statement, "this_thread_block") && tokens_.is(statement.end - 2, ")") &&
           body_.has_word(statement, "=") && !tokens_.is(statement.begin, "{");
  }

  // Whether it may be a declaration of a kind that read_declaration() does not know.
  bool may_declare(const Part& statement) const {
    const std::string_view first = tokens_.text(statement.begin);
    if (is_one_of(first,
                  {"using", "typedef", "struct", "class", "enum", "union", "volatile", "typename",
                   "extern", "const", "unsigned", "int", "float", "double", "auto"}))
      return true;
    const bool is_keyword = is_one_of(first, {"return", "delete", "else", "goto", "do", "new"});
    return !is_keyword && tokens_.is_identifier(statement.begin) &&
           tokens_.is_identifier(statement.begin + 1);
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
      if (has_jump_out(statement) || (!is_last && body_.has_word(statement, "return")))
        return fail();
      storage += cross(statement, end, scope.end);
    }
    edits_.push_back(
        {tokens_[begin].begin, tokens_[begin].begin,
         fmt::format(
             "{0}::wherry::kernels::{1}[&](const uint3 threadIdx, const unsigned "
             "wherry_rank) __attribute__((always_inline)) {{ "
             "(void)threadIdx; (void)wherry_rank; {2}{3}",
             storage,
             rows_ ? "for_row(wherry_begin, wherry_end, threadIdx, " : "for_threads(blockDim, ",
             prologue, tokens_.new_line_for(begin))});
    edits_.push_back({tokens_[end - 1].end, tokens_[end - 1].end, " });"});
    run.clear();
  }

  // Whether a break or continue leaves the statement.
  bool has_jump_out(const Part& statement) const {
    for (std::size_t i = statement.begin; i < statement.end; ++i) {
      const std::string_view word = tokens_.text(i);
      if (word == "for" || word == "while" || word == "do" || word == "switch") {
        i = body_.end_of_statement(i) - 1;
      } else if (word == "break" || word == "continue") {
        return true;
      }
    }
    return false;
  }

  // Makes the variables that the statement declares visible in later parts, if those use them.
  // Returns what stores them.
  std::string cross(const Part& statement, std::size_t run_end, std::size_t scope_end) {
    const auto declaration = body_.read_declaration({statement.begin, statement.end - 1});
    if (!declaration) {
      // A later part may use what the statement declares.
      if (may_declare(statement) && run_end + 1 < scope_end) fail();
      return {};
    }
    std::string storage;
    std::string replacement;
    bool is_replaced = false;
    const auto is_used_later = [&](const Declarator& each) {
      return body_.has_word({run_end, scope_end}, each.name);
    };
    const bool is_used = std::ranges::any_of(declaration->declarators, is_used_later);
    for (const Declarator& each : declaration->declarators) {
      const bool has_value = each.initializer.begin != each.initializer.end;
      const std::string value =
          line_with_thread_numbers(tokens_, each.initializer.begin, each.initializer.end);
      if (body_.is_declared_twice(each.name)) {
        if (is_used) fail();
        continue;
      }
      if (each.is_simple && has_value && !body_.is_modified(each.name) &&
          body_.is_pure(each.initializer, false)) {
        // Later parts compute the value again; this part declares it as before.
        body_.know(each.name, !is_uniform(each.initializer));
        const std::string type =
            each.type.starts_with("auto") ? "auto" : body_.type_of(statement, each);
        const std::string again =
            fmt::format("{0} wherry_{1} = {2}; const auto {1} = wherry_{1}; (void){1}; ", type,
                        each.name, value);
        locals_.push_back({each.name, again});
        replacement += again;
        continue;
      }
      if (!is_used) continue;
      const bool is_array = each.extents.begin != each.extents.end;
      if ((!each.is_simple && !is_array) || !declaration->has_plain_type) fail();
      is_replaced = true;
      const std::string type = body_.type_of(statement, each);
      const std::string extents = tokens_.in_one_line(each.extents.begin, each.extents.end);
      storage += fmt::format("::wherry::kernels::PerThread<{}{}> wherry_all_{}; ", type, extents,
                             each.name);
      replacement += reference_to(each.name);
      if (has_value && is_array)
        replacement += fmt::format(
            "{{ {0} wherry_values{1} = {2}; __builtin_memcpy({3}, wherry_values, "
            "sizeof wherry_values); }} ",
            type, extents, value, each.name);
      else if (has_value)
        replacement += fmt::format("{} = {}; ", each.name, value);
      locals_.push_back({each.name, reference_to(each.name)});
    }
    if (is_replaced) {
      const std::size_t from = tokens_[statement.begin].begin;
      const std::size_t to = tokens_[statement.end - 1].end;
      edits_.push_back({from, to, replacement + lines_in(from, to)});
    }
    return storage;
  }

  const Tokens& tokens_;
  const DeviceFunction& kernel_;
  KernelBody body_;
  bool rows_ = false;
  bool has_inner_loop_ = false;
  std::optional<Guard> guard_;
  std::set<std::string> pending_;
  bool failed_ = false;
  std::vector<Edit> edits_;
  std::vector<Local> locals_;  // visible in later parts, outer scopes first
};

}  // namespace

bool waits_in_barriers_only(const Tokens& tokens, const DeviceCode& code,
                            const DeviceFunction& kernel) {
  if (code.needs_of(kernel, {"__syncthreads", "sync"}).waits) return false;
  for (std::size_t i = kernel.body_open; i < kernel.body_close; ++i) {
    if (!tokens.is(i, "sync")) continue;
    const std::size_t back = tokens.is(i - 1, "::") || tokens.is(i - 1, ".") ? 2 : 0;
    if (barrier_length(tokens, kernel, i - back) == 0) return false;
  }
  return true;
}

std::optional<std::vector<Edit>> split_into_phases(const Tokens& tokens, const DeviceCode& code,
                                                   const DeviceFunction& kernel) {
  return Splitter(tokens, code, kernel).run();
}

std::optional<std::vector<Edit>> split_into_rows(const Tokens& tokens, const DeviceCode& code,
                                                 const DeviceFunction& kernel,
                                                 const std::optional<Guard>& guard) {
  Splitter splitter(tokens, code, kernel);
  splitter.use_rows(guard);
  return splitter.run();
}

}  // namespace wherry::tool
