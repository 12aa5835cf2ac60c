#include "access_trace.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace wherry::tool {

AccessTrace sweep_trace(std::uint32_t blocks, std::size_t rounds) {
  AccessTrace trace(blocks * rounds);
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i] = static_cast<std::uint32_t>(i % blocks);
  return trace;
}

AccessTrace random_trace(std::uint32_t blocks, std::size_t accesses, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  AccessTrace trace(accesses);
  for (std::uint32_t& block : trace) block = static_cast<std::uint32_t>(random() % blocks);
  return trace;
}

AccessTrace zipf_trace(std::uint32_t blocks, std::size_t accesses, double exponent,
                       std::uint64_t seed) {
  std::vector<double> sums(blocks);
  double sum = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) sums[i] = sum += std::pow(i + 1, -exponent);

  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> by_rank(blocks);
  std::iota(by_rank.begin(), by_rank.end(), 0);
  std::shuffle(by_rank.begin(), by_rank.end(), random);

  std::uniform_real_distribution<double> uniform(0, sum);
  AccessTrace trace(accesses);
  for (std::uint32_t& block : trace) {
    const auto rank = std::ranges::lower_bound(sums, uniform(random)) - sums.begin();
    block = by_rank[std::min<std::size_t>(static_cast<std::size_t>(rank), blocks - 1)];
  }
  return trace;
}

}  // namespace wherry::tool
