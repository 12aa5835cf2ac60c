// The folders of the headers and the library that belong to this tool.
#pragma once

#include <filesystem>

namespace wherry::tool {

struct Installation {
  std::filesystem::path include;  // the folder with wherry/
  std::filesystem::path library;  // the folder with libwherry.so
  std::filesystem::path link;     // the folder with the names of CUDA's libraries, for linkers
};

// In a build folder, a file beside the tool names these folders. An installed tool has them in its
// prefix.
Installation find_installation();

}  // namespace wherry::tool
