// The body of a kernel, statement by statement, for transformations: what its statements declare,
// and which expressions have the same value whenever they are computed. Knows tokens, not types; it
// treats as unknown what it does not understand.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nvcc/device_code.h"
#include "nvcc/parameters.h"

namespace wherry::tool {

// Token indices [begin, end).
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Declarator {
  std::string name;
  std::string type;       // with * and without const; an array's is its elements'
  Part initializer;       // empty if there is none
  Part extents;           // of an array, with their brackets; else empty
  bool is_simple = true;  // no reference, array, or initializer in ( ) or { }
};
struct Declaration {
  std::vector<Declarator> declarators;
  bool has_plain_type = false;  // can be copied and be left uninitialized
};

// Whether the word is =, += or another assignment operator.
bool is_assignment(std::string_view word);

class KernelBody {
 public:
  // Requires: the kernel has a body.
  KernelBody(const Tokens& tokens, const DeviceCode& code, const DeviceFunction& kernel);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Whether the body, or its tokens [begin, end), may change the variable.
  bool is_modified(std::string_view name) const { return modified_.contains(name); }
  bool changes(std::string_view name, std::size_t begin, std::size_t end) const;
  // Names that the body declares twice are not analysed.
  bool is_declared_twice(const std::string& name) const;

  // The token after the statement at i.
  std::size_t end_of_statement(std::size_t i) const;
  bool has_word(const Part& part, std::string_view word) const;
  // Returns nullopt if the tokens (without a ; at the end) declare no variables.
  std::optional<Declaration> read_declaration(const Part& part) const;
  // The declarator's type, with the const of what a pointer points to.
  std::string type_of(const Part& statement, const Declarator& declarator) const;

  // From now on "all threads" means those of a row, which have the same threadIdx.y and
  // threadIdx.z.
  void look_at_rows() { rows_ = true; }

  // Whether the expression has the same value at any time, and, if `uniform`, for all threads.
  bool is_pure(const Part& part, bool uniform) const;
  bool is_pure_token(std::size_t i, const Part& part, bool uniform) const;

  // ---- What is known of variables of the body; the caller tells it in the order of the text ----

  // Notes that the variable has a pure value.
  void know(const std::string& name, bool differs_between_threads);
  bool is_known(const std::string& name) const { return known_.contains(name); }
  bool differs_between_threads(const std::string& name) const {
    return thread_dependent_.contains(name);
  }
  // Notes that each thread has a variable of this name.
  void declare(const std::string& name) { declared_.insert(name); }
  void forget(const std::string& name);

 private:
  void read_names();
  bool follows_type(std::size_t i) const;
  bool may_change_arguments(std::size_t i) const;
  bool is_operand_end(std::size_t i) const;
  bool is_declaration_of(std::size_t i) const;
  std::size_t template_end(std::size_t i) const;
  bool is_template_type(std::string_view word) const;

  const Tokens& tokens_;
  const DeviceCode& code_;
  const DeviceFunction& kernel_;
  bool rows_ = false;
  std::vector<Parameter> parameters_;
  std::set<std::string_view> modified_;     // names that the body may change
  std::set<std::string_view> memory_;       // words of device variables
  std::set<std::string> known_;             // variables that can be computed again
  std::set<std::string> thread_dependent_;  // of these, those that differ between threads
  std::set<std::string> declared_;          // other variables
};

}  // namespace wherry::tool
