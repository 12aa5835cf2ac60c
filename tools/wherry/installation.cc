#include "installation.h"

#include <fstream>
#include <string>

namespace wherry::tool {

namespace fs = std::filesystem;

Installation find_installation() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  std::ifstream file(program.parent_path() / "wherry-folders");
  std::string include;
  std::string library;
  std::string link;
  if (std::getline(file, include) && std::getline(file, library) && std::getline(file, link))
    return {include, library, link};
  const fs::path bin = program.parent_path();
  const fs::path installed = fs::weakly_canonical(bin / WHERRY_LIBRARY_FROM_BIN);
  return {fs::weakly_canonical(bin / WHERRY_INCLUDE_FROM_BIN), installed,
          installed / "wherry/cuda"};
}

}  // namespace wherry::tool
