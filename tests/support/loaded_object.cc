#include "support/loaded_object.h"

#include <dlfcn.h>

#include <stdexcept>
#include <utility>

namespace wherry::test {

LoadedObject::LoadedObject(const std::string& file)
    : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) throw std::runtime_error(::dlerror());
}

void LoadedObject::close() {
  if (void* const handle = std::exchange(handle_, nullptr)) ::dlclose(handle);
}

void* LoadedObject::find(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
  return found;
}

}  // namespace wherry::test
