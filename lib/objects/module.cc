#include "objects/module.h"

#include "os/arch/cpu.h"

namespace wherry::impl {

KernelCode find_kernel(const LoadedObject& object, const std::string& name) {
  const ExportedSymbol code = find_function(object, name.c_str());
  if (code.address == 0) return {};
  const ExportedSymbol declared = find_variable(object, (params_prefix + name).c_str());
  DeclaredParams params{reinterpret_cast<const unsigned*>(declared.address)};
  // A size of 0 ends the list: AddressSanitizer appends zeros to variables. It forbids ordinary
  // reads of these, so copy_raw() reads.
  const auto* const sizes = reinterpret_cast<const std::byte*>(declared.address);
  for (unsigned size = 0; params.count < declared.bytes / sizeof size; ++params.count) {
    copy_raw(&size, sizes + params.count * sizeof size, sizeof size);
    if (size == 0) break;
  }
  return {name, reinterpret_cast<wherryGridKernel>(code.address), params};
}

}  // namespace wherry::impl
