#include "preloadable.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "os/files/elf_file.h"
#include "program_path.h"

namespace wherry::tool {
namespace {

bool has_interpreter(const impl::ElfFile& file) {
  return std::ranges::any_of(file.segments(),
                             [](const auto& segment) { return segment.p_type == PT_INTERP; });
}

// The names of the libraries that the program is linked with.
std::vector<std::string> needed_by(const impl::ElfFile& file) {
  std::vector<std::string> libraries;
  for (const auto& section : file.sections()) {
    if (section.sh_type != SHT_DYNAMIC || section.sh_link >= file.sections().size()) continue;
    const std::vector<char> names = file.strings(file.sections()[section.sh_link]);
    for (const auto& entry : file.table<ElfW(Dyn)>(section))
      if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < names.size())
        libraries.emplace_back(&names[entry.d_un.d_val]);
  }
  return libraries;
}

// Sanitizers replace malloc themselves, and end the program if they are not its first library.
bool is_sanitizer(std::string_view library) {
  constexpr std::array<std::string_view, 4> names{"libasan.", "libtsan.", "liblsan.", "libhwasan."};
  return library.starts_with("libclang_rt.") ||
         std::ranges::any_of(names, [&](auto name) { return library.starts_with(name); });
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
  if (file)
    for (const std::string& library : needed_by(*file))
      if (is_sanitizer(library))
        return "it needs " + library + ", which has to come before all other libraries";
  return {};
}

}  // namespace wherry::tool
