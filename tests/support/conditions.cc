#include "support/conditions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

namespace wherry::test {

namespace {

// The variable's number; without the variable a random one.
unsigned long long number_in(const char* variable) {
  if (const char* text = std::getenv(variable)) return std::stoull(text);
  return std::random_device{}();
}

}  // namespace

std::uint64_t seed() {
  static const std::uint64_t value = number_in("WHERRY_TEST_SEED");
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
  static const unsigned long long run = number_in("WHERRY_TEST_RUN");
  std::vector<std::size_t> chosen(scale() >= 1 ? count : 1, run % count);
  if (scale() >= 1) std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  std::printf("WHERRY_TEST_RUN=%llu: %zu of %zu %s\n", run, chosen.size(), count, what.c_str());
  return chosen;
}

}  // namespace wherry::test
