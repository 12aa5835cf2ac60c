#include "objects/compiled_kernels.h"

#include <utility>

namespace wherry::impl {

CompiledKernels& CompiledKernels::of_process() {
  // Never destroyed: exit handlers of the program may launch.
  static CompiledKernels& kernels = *new CompiledKernels;
  return kernels;
}

void CompiledKernels::add(const void* stub, KernelCode code) {
  const LockGuard guard(lock_);
  kernels_.insert_or_assign(stub, std::move(code));
}

std::optional<KernelCode> CompiledKernels::find(const void* stub) const {
  const LockGuard guard(lock_);
  const auto found = kernels_.find(stub);
  if (found == kernels_.end()) return std::nullopt;
  return found->second;
}

}  // namespace wherry::impl
