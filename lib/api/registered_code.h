// The kernels and variables that compiler-generated code in a CUDA program registers. Their code
// and initial values are for GPUs, so no device can use them. A launch of such a kernel is refused,
// and the message contains its name; the host gets memory for managed variables. Registration
// begins before main(). Any thread may call.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/lock.h"

namespace wherry::impl {

class RegisteredCode {
 public:
  struct Variable {
    std::string name;
    std::size_t bytes = 0;
    void* memory = nullptr;  // for a managed variable that has memory
  };

  // The only instance, which lives as long as the process.
  static RegisteredCode& of_process();

  // A module: kernels and variables that are registered together, and end together. The handle is
  // never null.
  void** begin_module() EXCLUDES(lock_);
  // Ends the module. The memory of its managed variables stays: a kernel may still use it.
  void end_module(void** module) EXCLUDES(lock_);

  // `stub` is the host function that stands for the kernel in calls, and `shadow` the host variable
  // that stands for the variable.
  void add_kernel(void** module, const void* stub, std::string name) EXCLUDES(lock_);
  void add_variable(void** module, const void* shadow, std::string name, std::size_t bytes)
      EXCLUDES(lock_);
  // The program reads the variable's address from *pointer.
  void add_managed(void** module, void** pointer, std::string name, std::size_t bytes)
      EXCLUDES(lock_);

  // Returns the kernel's name, or nullopt if the stub is not registered.
  std::optional<std::string> find_kernel(const void* stub) const EXCLUDES(lock_);
  // Finds a variable by its shadow, or a managed variable by its memory.
  std::optional<Variable> find_variable(const void* symbol) const EXCLUDES(lock_);

  // For each managed variable without memory, calls allocate(bytes) and uses the result unless it
  // is null. Returns the names of the variables that got memory.
  std::vector<std::string> give_memory(const std::function<void*(std::size_t)>& allocate)
      EXCLUDES(giving_lock_, lock_);

 private:
  struct Kernel {
    void** module = nullptr;
    std::string name;
  };
  struct DeviceVariable {
    void** module = nullptr;
    Variable variable;
  };
  struct ManagedVariable {
    void** module = nullptr;
    void** pointer = nullptr;
    Variable variable;
  };

  mutable Mutex lock_{LockOrder::registered};
  Mutex giving_lock_{LockOrder::giving};  // one call of give_memory() at a time
  std::size_t last_module_ GUARDED_BY(lock_) = 0;
  std::map<const void*, Kernel> kernels_ GUARDED_BY(lock_);            // by stub
  std::map<const void*, DeviceVariable> variables_ GUARDED_BY(lock_);  // by shadow
  std::vector<ManagedVariable> managed_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
