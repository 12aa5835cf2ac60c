// The kernels that code compiled by `wherry nvcc` has registered, by the address of the stub that
// the program calls to launch. Registration begins before main(). Any thread may call.
#pragma once

#include <map>
#include <optional>

#include "base/lock.h"
#include "objects/module.h"

namespace wherry::impl {

class CompiledKernels {
 public:
  // The only instance, which lives as long as the process.
  static CompiledKernels& of_process();

  void add(const void* stub, KernelCode code) EXCLUDES(lock_);
  std::optional<KernelCode> find(const void* stub) const EXCLUDES(lock_);

 private:
  mutable Mutex lock_{LockOrder::registered};
  std::map<const void*, KernelCode> kernels_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
