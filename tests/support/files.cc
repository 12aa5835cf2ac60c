#include "support/files.h"

#include <fstream>
#include <iterator>

namespace wherry::test {

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace wherry::test
