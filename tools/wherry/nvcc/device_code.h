// Finds the CUDA parts of a translation unit: its functions for devices, kernels, variables and
// launches, and what each kernel may do through the functions that it calls. Looks at tokens; types
// are not known. Where a name is ambiguous, the answer is correct for each meaning of it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nvcc/lexer.h"

namespace wherry::tool {

// A function or a lambda with __global__ or __device__. Positions are indices of tokens.
struct DeviceFunction {
  bool is_kernel = false;
  bool is_host_too = false;
  // An operator, constructor, destructor or lambda: calls do not name it.
  bool is_anonymous = false;
  bool is_lambda = false;
  std::string_view name;
  std::string_view owner;        // the class around it, if it has a name
  std::size_t begin = 0;         // of the declaration
  std::size_t name_at = 0;       // the first token of the name
  std::size_t params_open = 0;   // the ( of the parameters
  std::size_t params_close = 0;  // the ) of the parameters
  std::size_t body_open = 0;     // the {; 0 if it is only declared
  std::size_t body_close = 0;
  bool in_class = false;  // declared inside a class or a function
};

// A variable with __device__, __constant__, __managed__ or __shared__.
struct DeviceVariable {
  std::size_t marker = 0;  // the token of the last of these words
  std::size_t begin = 0;   // of the declaration
  std::size_t end = 0;     // the token after the declarator: one of ; = [ { ,
  bool is_shared = false;
  bool is_constant = false;  // const or constexpr
  bool in_function = false;
};

// callee <<< configuration >>> ( arguments ). Positions are indices of tokens.
struct Launch {
  std::size_t callee = 0;  // its first token
  std::size_t open = 0;    // the first < of <<<
  std::size_t close = 0;   // the first > of >>>
};

// What a kernel does, by itself or through what it calls.
struct KernelNeeds {
  bool waits = false;         // its threads may wait for each other
  bool thread_index = false;  // functions that it calls ask which thread runs
};

class DeviceCode {
 public:
  explicit DeviceCode(const Tokens& tokens);

  const std::vector<DeviceFunction>& functions() const { return functions_; }
  const std::vector<DeviceVariable>& variables() const { return variables_; }
  const std::vector<Launch>& launches() const { return launches_; }
  // Requires: the kernel has a body. `without`: functions that count as doing nothing.
  KernelNeeds needs_of(const DeviceFunction& kernel,
                       std::initializer_list<std::string_view> without = {}) const;
  // "file:line: error: ..." for each thing that cannot be compiled for Wherry.
  const std::vector<std::string>& refusals() const { return refusals_; }

  // Whether the [ at i begins a lambda and not a subscript or an attribute.
  static bool begins_lambda(const Tokens& tokens, std::size_t i);

 private:
  void look_at_marker(std::size_t i);
  void add_function(DeviceFunction function, std::size_t open);
  void add_variable(std::size_t i, std::size_t begin, std::size_t end);
  void add_launch(std::size_t i);
  bool is_spaced(std::size_t i, char bracket) const;
  void check_word(std::size_t i);
  std::size_t find_body(std::size_t i) const;
  std::size_t begin_of_declaration(std::size_t i) const;
  bool is_at_namespace_scope(std::size_t i) const;
  void refuse(std::size_t i, const std::string& what);
  struct Names {
    // Whether the kernel is a template, so that it may use any class.
    bool has_parameters = false;
    std::set<std::string_view> all;
    std::set<std::string_view> called;  // those before a ( or template arguments
  };
  KernelNeeds needs_of_names(Names names) const;
  void collect_names(const DeviceFunction& function, Names& names) const;
  bool is_reached(const DeviceFunction& function, const Names& names) const;
  std::string_view class_around() const;

  const Tokens& tokens_;
  std::vector<DeviceFunction> functions_;
  std::vector<DeviceVariable> variables_;
  std::vector<Launch> launches_;
  std::vector<std::string> refusals_;
  std::vector<std::size_t>
      scopes_;  // the open braces around the current token that are no namespace
};

}  // namespace wherry::tool
