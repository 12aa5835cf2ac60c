#include "support/conditions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
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

std::vector<std::size_t> one_of(std::size_t count, const std::string& what) {
  static const std::uint64_t run = [] {
    if (const char* text = std::getenv("WHERRY_TEST_RUN")) return std::stoull(text);
    return static_cast<unsigned long long>(std::random_device{}());
  }();
  std::vector<std::size_t> chosen(scale() >= 1 ? count : 1, run % count);
  if (scale() >= 1) std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  std::printf("WHERRY_TEST_RUN=%llu: %zu of %zu %s\n", static_cast<unsigned long long>(run),
              chosen.size(), count, what.c_str());
  return chosen;
}

}  // namespace wherry::test
