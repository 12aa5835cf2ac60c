// Where the headers and the library are that belong to this tool.
#pragma once

#include <filesystem>

namespace wherry::tool {

struct Installation {
  std::filesystem::path include;  // the folder with wherry/
  std::filesystem::path library;  // the folder with libwherry.so
  std::filesystem::path link;     // the folder with the names of CUDA's libraries, for linkers
};

// Beside the tool is a file with the folders in the build folder; else the tool is installed in a
// prefix.
Installation find_installation();

}  // namespace wherry::tool
