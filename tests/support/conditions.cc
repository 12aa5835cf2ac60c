#include "support/conditions.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

namespace wherry::test {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    if (const char* text = std::getenv("WHERRY_TEST_SEED")) return std::stoull(text);
    return static_cast<unsigned long long>(std::random_device{}());
  }();
  return value;
}

double scale() {
  static const double value = [] {
    const char* text = std::getenv("WHERRY_TEST_SCALE");
    return text != nullptr ? std::stod(text) : 1.0;
  }();
  return value;
}

std::uint64_t scaled(std::uint64_t count) {
  const auto product = static_cast<std::uint64_t>(static_cast<double>(count) * scale());
  return std::max<std::uint64_t>(product, 1);
}

}  // namespace wherry::test
