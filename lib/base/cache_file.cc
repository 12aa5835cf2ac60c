#include "base/cache_file.h"

#include "base/environment.h"

namespace wherry::impl {

std::string cache_file(const char* name) {
  const auto below = [name](EnvironmentName variable, const char* folder) {
    const char* const start = environment_value(variable);
    // The XDG specification says that relative paths are to be ignored.
    return start != nullptr && start[0] == '/' ? std::string(start) + folder + name : std::string();
  };
  const std::string cached = below("XDG_CACHE_HOME", "/wherry/");
  return cached.empty() ? below("HOME", "/.cache/wherry/") : cached;
}

}  // namespace wherry::impl
