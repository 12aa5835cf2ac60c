// Modules that a test loads while its devices run: late_kernel.cc, compiled with different values.
// `value` is the number that the module's kernel writes.
#pragma once

#include <filesystem>
#include <string>

#include "devices/device_process.h"
#include "support/loaded_object.h"

namespace wherry::test {

inline std::filesystem::path late_module_file(int value) {
  return std::filesystem::canonical("/proc/self/exe").parent_path() /
         ("libdevices_late_kernel_" + std::to_string(value) + ".so");
}

class LateModule {
 public:
  explicit LateModule(const std::filesystem::path& file) : object_(file) {}
  explicit LateModule(int value) : LateModule(late_module_file(value)) {}
  impl::KernelFunction kernel(const char* name = "late_kernel") const {
    return object_.symbol<impl::KernelFunction>(name);
  }

 private:
  LoadedObject object_;
};

}  // namespace wherry::test
