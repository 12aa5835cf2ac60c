#include "support/soak.h"

#include <cstdlib>
#include <fstream>

namespace wherry::test {

std::optional<std::chrono::seconds> soak_time() {
  const char* const text = std::getenv("WHERRY_TEST_SECONDS");
  if (text == nullptr) return {};
  return std::chrono::seconds{std::stoi(text)};
}

void keep_for_soak(const std::string& name, const std::string& text) {
  if (const char* const folder = std::getenv("WHERRY_TEST_FOLDER"))
    std::ofstream{std::string{folder} + "/" + name} << text;
}

}  // namespace wherry::test
