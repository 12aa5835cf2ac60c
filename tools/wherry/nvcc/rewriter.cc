#include "nvcc/rewriter.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "nvcc/device_code.h"
#include "nvcc/guard.h"
#include "nvcc/lexer.h"
#include "nvcc/parameters.h"
#include "nvcc/phases.h"
#include "nvcc/thread_number.h"

namespace wherry::tool {
namespace {

constexpr std::string_view ours = "::wherry::kernels::";

// Replacements of parts of a text. A replacement inside a replaced part is ignored.
class Edits {
 public:
  // Replaces the bytes [begin, end). Insertions at one place keep their order, and come before what
  // replaces the text there.
  void replace(std::size_t begin, std::size_t end, std::string text) {
    edits_.push_back({begin, end, std::move(text)});
  }
  void insert(std::size_t at, std::string text) { replace(at, at, std::move(text)); }

  std::string apply(std::string_view source) {
    std::ranges::stable_sort(
        edits_, {}, [](const Edit& edit) { return std::pair(edit.begin, edit.end != edit.begin); });
    std::string result;
    result.reserve(source.size() + source.size() / 8);
    std::size_t at = 0;
    for (const Edit& edit : edits_) {
      if (edit.begin < at) continue;  // inside a part that is replaced
      result += source.substr(at, edit.begin - at);
      result += edit.text;
      at = edit.end;
    }
    result += source.substr(at);
    return result;
  }

 private:
  std::vector<Edit> edits_;
};

class Rewriter {
 public:
  Rewriter(const Tokens& tokens, const DeviceCode& code, bool relocatable)
      : tokens_(tokens), code_(code), relocatable_(relocatable) {}

  std::string run() {
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i)
      if (tokens_.is_identifier(i)) rewrite_word(i);
    for (const DeviceVariable& variable : code_.variables()) rewrite_variable(variable);
    for (const DeviceFunction& function : code_.functions()) {
      if (function.is_kernel)
        rewrite_kernel(function);
      else
        rewrite_function(function);
    }
    for (const Launch& launch : code_.launches()) rewrite_launch(launch);
    return edits_.apply(tokens_.source());
  }

 private:
  void replace_token(std::size_t i, std::string text) {
    edits_.replace(tokens_[i].begin, tokens_[i].end, std::move(text));
  }

  void rewrite_word(std::size_t i) {
    const std::string_view word = tokens_.text(i);
    if (!word.starts_with("__")) return;
    constexpr std::array dropped = {"__global__",   "__device__",  "__host__",
                                    "__constant__", "__managed__", "__shared__"};
    if (std::ranges::find(dropped, word) != dropped.end()) {
      if (!is_variable_marker(i)) replace_token(i, "");
    } else if (word == "__forceinline__") {
      const bool is_inline = is_near(i, "inline") || is_near(i, "__inline__");
      replace_token(i, is_inline ? "__attribute__((always_inline))"
                                 : "inline __attribute__((always_inline))");
    } else if (word == "__noinline__" && !tokens_.is(i - 1, "(") && !tokens_.is(i - 1, ",")) {
      replace_token(i, "__attribute__((noinline))");
    }
  }

  bool is_variable_marker(std::size_t i) const {
    return std::ranges::any_of(code_.variables(),
                               [&](const DeviceVariable& each) { return each.marker == i; });
  }

  // Whether the word is one of the few tokens before or after token i, up to the next punctuation:
  // they belong to the same declaration.
  bool is_near(std::size_t i, std::string_view word) const {
    for (std::size_t j = i; j-- > 0 && i - j < 8;) {
      if (tokens_[j].kind == Token::Kind::punctuation) break;
      if (tokens_.is(j, word)) return true;
    }
    for (std::size_t j = i + 1; j < i + 8 && tokens_[j].kind != Token::Kind::punctuation; ++j)
      if (tokens_.is(j, word)) return true;
    return false;
  }

  bool has_word(std::size_t begin, std::size_t end, std::string_view word) const {
    for (std::size_t i = begin; i < end; ++i)
      if (tokens_.is(i, word)) return true;
    return false;
  }

  // The name in the declarator that ends before token `end`.
  std::size_t name_before(std::size_t end) const {
    std::size_t name = end - 1;
    while (name > 0 && !tokens_.is_identifier(name)) --name;
    return name;
  }

  void rewrite_variable(const DeviceVariable& variable) {
    const bool is_extern = has_word(variable.begin, variable.end, "extern");
    const bool is_static = has_word(variable.begin, variable.end, "static");
    if (variable.is_shared) {
      if (is_extern)
        rewrite_dynamic_shared(variable);
      else
        replace_token(variable.marker, is_static ? "thread_local" : "static thread_local");
      return;
    }
    const bool is_plain =
        variable.is_constant || has_word(variable.begin, variable.end, "template");
    std::string text;
    if (!relocatable_ && !is_extern && !is_static && !variable.in_function &&
        !has_word(variable.begin, variable.end, "inline") && !variable.is_constant)
      text = "static ";
    if (!is_plain) text += "__attribute__((section(\"wherry_managed\"), aligned(4096), used))";
    replace_token(variable.marker, text);
  }

  // Rewrites extern __shared__ T s[];
  void rewrite_dynamic_shared(const DeviceVariable& variable) {
    const std::size_t name = name_before(variable.end);
    const std::string called(tokens_.text(name));
    std::string type;
    for (std::size_t i = variable.begin; i < name; ++i) {
      if (tokens_.is(i, "extern") || tokens_.is(i, "__shared__") || tokens_.is(i, "static"))
        continue;
      type += std::string(tokens_.text(i)) + " ";
    }
    std::size_t end = variable.end;
    while (!tokens_.is(end, ";") && end < tokens_.size()) ++end;
    const std::string array = type + "wherry_type_of_" + called + "[]";
    if (variable.in_function) {
      edits_.replace(tokens_[variable.begin].begin, tokens_[end].begin,
                     fmt::format("typedef {0}; wherry_type_of_{1}& {1} = "
                                 "*reinterpret_cast<wherry_type_of_{1}*>({2}dynamic_shared())",
                                 array, called, ours));
    } else {
      edits_.replace(tokens_[variable.begin].begin, tokens_[end].begin,
                     fmt::format("static const {0}DynamicShared<{1}> {2}", ours, type, called));
    }
  }

  // Makes device functions private to their file, as nvcc does.
  void rewrite_function(const DeviceFunction& function) {
    if (function.body_open != 0) ask_for_index(function.body_open, function.body_close);
    if (relocatable_ || function.is_lambda || function.in_class || function.is_host_too ||
        function.is_anonymous)
      return;
    if (tokens_.is(function.name_at - 1, "::")) return;
    for (const std::string_view word : {"static", "inline", "__inline__", "__forceinline__",
                                        "extern", "constexpr", "template", "friend"})
      if (has_word(function.begin, function.name_at, word)) return;
    edits_.insert(tokens_[function.begin].begin, "static __attribute__((unused)) ");
  }

  // Replaces threadIdx, blockIdx, ... by calls in code that is not in a kernel's own body.
  void ask_for_index(std::size_t open, std::size_t close) {
    for (std::size_t i = open; i < close; ++i) {
      if (!tokens_.is_identifier(i)) continue;
      if (tokens_.is(i - 1, ".") || tokens_.is(i - 1, "->")) continue;
      if (tokens_.is(i, "clock") && tokens_.is(i + 1, "(")) replace_token(i, "clock64");
      if (const std::string_view asked = question_for(tokens_.text(i)); !asked.empty())
        replace_token(i, std::string(ours) + std::string(asked));
    }
  }
  static std::string_view question_for(std::string_view word) {
    if (word == "threadIdx") return "thread_index()";
    if (word == "blockIdx") return "block_index()";
    if (word == "blockDim") return "block_dim()";
    if (word == "gridDim") return "grid_dim()";
    return {};
  }

  void rewrite_launch(const Launch& launch) {
    const std::size_t last = launch.close + 2;
    // The launch becomes (configure(configuration) ? (void)0 : callee(args)).
    std::string configuration = tokens_.in_one_line(launch.open + 3, launch.close);
    edits_.insert(tokens_[launch.callee].begin,
                  fmt::format("({}configure({}) ? (void)0 : {}", ours, configuration,
                              tokens_.new_line_for(launch.callee)));
    // Keeps the configuration's line ends, so that what follows keeps its line.
    const std::string_view source = tokens_.source();
    const std::string_view cut =
        source.substr(tokens_[launch.open].begin, tokens_[last].end - tokens_[launch.open].begin);
    edits_.replace(tokens_[launch.open].begin, tokens_[last].end,
                   std::string(static_cast<std::size_t>(std::ranges::count(cut, '\n')), '\n'));
    const std::size_t arguments = tokens_.skip_directives(last + 1);
    edits_.insert(tokens_[tokens_.partner(arguments)].end, ")");
  }

  // The kernel's name with its template arguments, for use in its own body.
  std::string full_name(const DeviceFunction& kernel, std::string& failure) {
    std::string name = tokens_.in_one_line(kernel.name_at, kernel.params_open);
    if (!tokens_.is(kernel.begin, "template") || name.find('<') != std::string::npos) return name;
    const std::size_t open = tokens_.skip_directives(kernel.begin + 1);
    const std::size_t close = tokens_.closing_angle(open);
    if (close == 0) {
      failure = "the template parameters of this kernel cannot be read";
      return name;
    }
    name += "<";
    std::size_t number = 0;
    for (const Parameter& parameter : template_parameters(tokens_, open, close)) {
      std::string called = parameter.name;
      if (called.empty()) {
        called = fmt::format("wherry_template_{}", number);
        edits_.insert(tokens_[parameter.name_before].begin, " " + called + " ");
      }
      name +=
          fmt::format("{}{}{}", number++ == 0 ? "" : ", ", called, parameter.is_pack ? "..." : "");
    }
    return name + ">";
  }

  void rewrite_kernel(const DeviceFunction& kernel) {
    if (kernel.body_open == 0) return;
    std::string failure;
    const std::string name = full_name(kernel, failure);
    std::string values;
    std::string types;
    std::size_t number = 0;
    for (const Parameter& parameter :
         function_parameters(tokens_, kernel.params_open, kernel.params_close)) {
      std::string called = parameter.name;
      if (called.empty()) {
        called = fmt::format("wherry_parameter_{}", number);
        edits_.insert(tokens_[parameter.name_before].begin, " " + called + " ");
      }
      const std::string_view dots = parameter.is_pack ? "..." : "";
      values += fmt::format("{}{}{}", number == 0 ? "" : ", ", called, dots);
      // A function's type drops qualifiers of its parameters, but g++ keeps __restrict__ in
      // templates.
      types += fmt::format("{}{}Unqualified<decltype({})>{}", number == 0 ? "" : ", ", ours, called,
                           dots);
      ++number;
    }
    const KernelNeeds needs = code_.needs_of(kernel);
    const bool asks = ask_in_nested_functions(kernel) || needs.thread_index;
    std::string_view mode = needs.waits ? "fibers" : asks ? "indexed" : "loop";
    if (needs.waits && !asks && waits_in_barriers_only(tokens_, code_, kernel))
      if (const auto parts = split_into_phases(tokens_, code_, kernel)) {
        mode = "phases";
        for (const Edit& part : *parts) edits_.replace(part.begin, part.end, part.text);
      }
    std::string parameters = tokens_.in_one_line(kernel.params_open + 1, kernel.params_close);
    if (number == 0) parameters.clear();
    std::string guard_function;
    if (mode == "loop") {
      const auto guard = find_guard(tokens_, code_, kernel);
      const auto rows = split_into_rows(tokens_, code_, kernel, guard);
      mode = rows ? "rows" : guard ? "guarded_loop" : "loop";
      if (rows)
        for (const Edit& part : *rows) edits_.replace(part.begin, part.end, part.text);
      if (guard && !rows) give_way_to(*guard);
      if (guard || rows) guard_function = guard_in(guard.value_or(Guard{}), parameters);
    }
    if (mode != "fibers") replace_thread_numbers(kernel);
    const std::string_view head =
        mode == "phases" ? "block("
        : mode == "rows"
            ? "row(const int wherry_begin, const int wherry_end, const uint3 threadIdx, "
            : "thread(const bool wherry_inside, const uint3 threadIdx, ";
    edits_.insert(
        tokens_[kernel.body_open].begin,
        fmt::format("{{ struct wherry_kernel {{ enum {{ mode = {0}{1} }}; {6}"
                    "static const char* name() {{ return \"{2}\"; }} "
                    "__attribute__((always_inline)) static inline void "
                    "{5}const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim{3}{4}) "
                    "{{ (void)blockIdx; (void)blockDim; (void)gridDim; {7}",
                    ours, mode, kernel.name, number == 0 ? "" : ", ", parameters, head,
                    guard_function, tokens_.new_line_for(kernel.body_open)));
    edits_.insert(tokens_[kernel.body_close].end,
                  fmt::format(" }} }}; {0}launch<wherry_kernel, static_cast<void (*)({1})>(&{2})>"
                              "({3}); }}",
                              ours, types, name, values));
    bool has_lambda = false;
    for (std::size_t i = kernel.body_open; i < kernel.body_close; ++i) {
      has_lambda |= DeviceCode::begins_lambda(tokens_, i);
      if (!has_lambda && tokens_.is(i, "assertion_failed"))
        edits_.insert(tokens_[i + 1].end, "threadIdx, ");
      if (tokens_.is(i, "clock") && tokens_.is(i + 1, "(")) replace_token(i, "clock64");
      if (tokens_.is(i, "__func__") || tokens_.is(i, "__FUNCTION__") ||
          tokens_.is(i, "__PRETTY_FUNCTION__"))
        replace_token(i, fmt::format("\"{}\"", kernel.name));
    }
    if (!failure.empty())
      edits_.insert(tokens_[kernel.begin].begin, "static_assert(false, \"" + failure + "\");");
  }

  // The body does not evaluate the condition where the loop has done so (wherry_inside).
  void give_way_to(const Guard& guard) {
    const Part& condition = guard.condition;
    edits_.insert(tokens_[condition.begin].begin,
                  guard.returns ? "!wherry_inside && (" : "wherry_inside || (");
    edits_.insert(tokens_[condition.end].begin, ")");
  }

  // The function that evaluates the guard: always true without a condition.
  std::string guard_in(const Guard& guard, const std::string& parameters) {
    const Part& condition = guard.condition;
    return fmt::format(
        "__attribute__((always_inline)) static inline bool guard(const uint3 "
        "threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 "
        "gridDim{}{}) {{ (void)threadIdx; (void)blockIdx; (void)blockDim; "
        "(void)gridDim; {} return {}({}); }} ",
        parameters.empty() ? "" : ", ", parameters, guard.declarations, guard.returns ? "!" : "",
        condition.begin == condition.end
            ? "true"
            : line_with_thread_numbers(tokens_, condition.begin, condition.end));
  }

  void replace_thread_numbers(const DeviceFunction& kernel) {
    for (std::size_t i = kernel.body_open + 1; i < kernel.body_close; ++i) {
      const std::size_t length = thread_number_at(tokens_, i);
      if (length == 0) continue;
      std::string lines;
      for (std::size_t at = tokens_[i].begin; at < tokens_[i + length - 1].end; ++at)
        if (tokens_.source()[at] == '\n') lines += '\n';
      edits_.replace(tokens_[i].begin, tokens_[i + length - 1].end,
                     thread_number_call(tokens_, i) + lines);
      i += length - 1;
    }
  }

  // Rewrites lambdas without default captures and local classes: they do not see the parameters of
  // the thread's function. Returns whether any of them uses threadIdx.
  bool ask_in_nested_functions(const DeviceFunction& kernel) {
    bool asks = false;
    for (std::size_t i = kernel.body_open + 1; i < kernel.body_close; ++i) {
      std::size_t open = 0;
      if (DeviceCode::begins_lambda(tokens_, i)) {
        if (tokens_.is(i + 1, "=") || (tokens_.is(i + 1, "&") && !tokens_.is_identifier(i + 2)))
          continue;
        open = tokens_.partner(i);
        while (open < kernel.body_close && !tokens_.is(open, "{")) ++open;
      } else if ((tokens_.is(i, "struct") || tokens_.is(i, "class")) &&
                 tokens_.is_identifier(i + 1) && tokens_.is(i + 2, "{")) {
        open = i + 2;
      }
      if (open == 0 || open >= kernel.body_close) continue;
      const std::size_t close = tokens_.partner(open);
      asks |= has_word(open, close, "threadIdx");
      ask_for_index(open, close);
      i = close;
    }
    return asks;
  }

  const Tokens& tokens_;
  const DeviceCode& code_;
  const bool relocatable_;
  Edits edits_;
};

}  // namespace

Rewritten rewrite_cuda(std::string preprocessed, bool relocatable) {
  const Tokens tokens(std::move(preprocessed));
  const DeviceCode code(tokens);
  if (!code.refusals().empty()) return {{}, code.refusals()};
  return {Rewriter(tokens, code, relocatable).run(), {}};
}

}  // namespace wherry::tool
