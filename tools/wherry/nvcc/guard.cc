#include "nvcc/guard.h"

#include "nvcc/thread_number.h"

namespace wherry::tool {

std::optional<Guard> find_guard(const Tokens& tokens, const DeviceCode& code,
                                const DeviceFunction& kernel) {
  KernelBody body(tokens, code, kernel);
  Guard guard;
  std::size_t i = tokens.skip_directives(kernel.body_open + 1);
  while (i < kernel.body_close && !tokens.is(i, "if")) {
    const Part statement{i, body.end_of_statement(i)};
    const auto declaration = body.read_declaration({statement.begin, statement.end - 1});
    if (!declaration) return std::nullopt;
    for (const Declarator& each : declaration->declarators) {
      const bool has_value = each.initializer.begin != each.initializer.end;
      // The guard also evaluates this value, and threads that it keeps out do not run the body. So
      // the value must be the same at any time.
      if (!each.is_simple || (has_value && !body.is_pure(each.initializer, false)))
        return std::nullopt;
      if (has_value) {
        body.know(each.name, true);
        const std::string type = body.type_of(statement, each);
        guard.declarations +=
            (type.starts_with("auto") ? "auto " : type + " ") + each.name + " = " +
            line_with_thread_numbers(tokens, each.initializer.begin, each.initializer.end) +
            "; (void)" + each.name + "; ";
      } else {
        body.declare(each.name);
      }
    }
    i = tokens.skip_directives(statement.end);
  }
  if (i >= kernel.body_close || !tokens.is(i + 1, "(")) return std::nullopt;
  guard.condition = {i + 2, tokens.partner(i + 1)};
  if (!body.is_pure(guard.condition, false)) return std::nullopt;
  std::size_t then = tokens.skip_directives(guard.condition.end + 1);
  if (tokens.is(then, "{")) ++then;
  guard.returns = tokens.is(then, "return") && tokens.is(then + 1, ";");
  // The if must be the last statement, unless it only returns.
  const std::size_t end = tokens.skip_directives(body.end_of_statement(i));
  if (!guard.returns && end != kernel.body_close) return std::nullopt;
  if (guard.returns && tokens.is(end - 1, "}") && !tokens.is(then + 2, "}")) return std::nullopt;
  for (std::size_t j = i; j < end; ++j)
    if (tokens.is(j, "else") && body.end_of_statement(i) > j && !guard.returns) {
      // An else inside the first statement is an inner if's; a later one may be the guard's.
      const std::size_t first = tokens.skip_directives(guard.condition.end + 1);
      if (j >= body.end_of_statement(first)) return std::nullopt;
    }
  return guard;
}

}  // namespace wherry::tool
