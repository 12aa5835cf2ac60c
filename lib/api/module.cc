#include "api/module.h"

namespace wherry::impl {

KernelCode find_kernel(const LoadedObject& object, const std::string& name) {
  const ExportedSymbol code = find_function(object, name.c_str());
  if (code.address == 0) return {};
  const ExportedSymbol sizes = find_variable(object, (params_prefix + name).c_str());
  return {name,
          reinterpret_cast<wherryGridKernel>(code.address),
          {reinterpret_cast<const unsigned*>(sizes.address), sizes.bytes / sizeof(unsigned)}};
}

}  // namespace wherry::impl
