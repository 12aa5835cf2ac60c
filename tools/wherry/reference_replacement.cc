#include "reference_replacement.h"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace wherry::tool {
namespace {

// Replays a trace in which each access gives its block a rank. The block with the lowest rank is
// evicted.
template <typename Rank>
std::size_t replay(std::span<const std::uint32_t> trace, std::size_t capacity, std::size_t first,
                   const Rank& rank_at) {
  using Rated = std::pair<std::uint64_t, std::uint32_t>;
  std::set<Rated> resident;
  std::unordered_map<std::uint32_t, std::uint64_t> ranks;
  std::size_t hits = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::uint32_t block = trace[i];
    const std::uint64_t rank = rank_at(i);
    if (const auto known = ranks.find(block); known != ranks.end()) {
      hits += i >= first ? 1 : 0;
      resident.erase({known->second, block});
    } else if (resident.size() == capacity) {
      ranks.erase(resident.begin()->second);
      resident.erase(resident.begin());
    }
    ranks[block] = rank;
    resident.emplace(rank, block);
  }
  return hits;
}

}  // namespace

std::size_t hits_of_lru(std::span<const std::uint32_t> trace, std::size_t capacity,
                        std::size_t first) {
  return replay(trace, capacity, first, [](std::size_t i) { return i; });
}

std::size_t hits_of_random(std::span<const std::uint32_t> trace, std::size_t capacity,
                           std::size_t first, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> resident;
  std::unordered_map<std::uint32_t, bool> holds;
  std::size_t hits = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    bool& held = holds[trace[i]];
    if (held) {
      hits += i >= first ? 1 : 0;
    } else if (resident.size() < capacity) {
      resident.push_back(trace[i]);
    } else {
      std::uint32_t& victim = resident[random() % capacity];
      holds[victim] = false;
      victim = trace[i];
    }
    holds[trace[i]] = true;
  }
  return hits;
}

std::size_t hits_of_optimum(std::span<const std::uint32_t> trace, std::size_t capacity,
                            std::size_t first) {
  std::vector<std::uint64_t> nearness(trace.size());  // higher if the next access is sooner
  std::unordered_map<std::uint32_t, std::size_t> next;
  for (std::size_t i = trace.size(); i-- > 0;) {
    const auto known = next.find(trace[i]);
    nearness[i] = known == next.end() ? 0 : trace.size() - known->second;
    next[trace[i]] = i;
  }
  return replay(trace, capacity, first, [&](std::size_t i) { return nearness[i]; });
}

}  // namespace wherry::tool
