#include "preloadable.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

#include "os/files/elf_file.h"
#include "program_path.h"

namespace wherry::tool {
namespace {

bool has_interpreter(const impl::ElfFile& file) {
  return std::ranges::any_of(file.segments(),
                             [](const auto& segment) { return segment.p_type == PT_INTERP; });
}

}  // namespace

std::string why_not_preloadable(const std::string& name) {
  const std::string path = find_program(name);
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return {};
  const bool changes_user = (found.st_mode & S_ISUID) != 0 && found.st_uid != ::getuid();
  const bool changes_group = (found.st_mode & S_ISGID) != 0 && found.st_gid != ::getgid();
  const bool has_capabilities =
      ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  if (changes_user || changes_group || has_capabilities)
    return "it runs with more rights than its user has (set-uid, set-gid or file capabilities)";
  const auto file = impl::ElfFile::open(path);
  if (file && !has_interpreter(*file)) return "it is linked statically";
  return {};
}

}  // namespace wherry::tool
