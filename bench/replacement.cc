// Which block should leave a full pool? Replays traces of block accesses with well-known
// replacement policies and with the library's. The library's policy sees only misses, and faults on
// the blocks that it samples.
#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <list>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "access_trace.h"
#include "policy/replacement.h"
#include "reference_replacement.h"

using namespace wherry::impl;
using wherry::tool::AccessTrace;

namespace {

constexpr std::uint32_t capacity = 64;
constexpr std::uint64_t seed = 1;

struct Row {
  std::string name;
  AccessTrace trace;
  std::size_t first;  // number of accesses that warm up
};

std::size_t hits_of_fifo(const Row& row) {
  std::deque<std::uint32_t> order;
  std::vector<bool> held(1 << 20);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < row.trace.size(); ++i) {
    const std::uint32_t block = row.trace[i];
    if (held[block]) {
      hits += i >= row.first ? 1 : 0;
      continue;
    }
    if (order.size() == capacity) {
      held[order.front()] = false;
      order.pop_front();
    }
    order.push_back(block);
    held[block] = true;
  }
  return hits;
}

// Bimodal insertion (BIP): most new blocks go to the end that is evicted first, one in 32 to the
// other end. It sees every access.
std::size_t hits_of_bip(const Row& row) {
  std::list<std::uint32_t> order;  // the front is evicted first
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> places;
  std::size_t hits = 0, misses = 0;
  for (std::size_t i = 0; i < row.trace.size(); ++i) {
    const std::uint32_t block = row.trace[i];
    if (const auto found = places.find(block); found != places.end()) {
      hits += i >= row.first ? 1 : 0;
      order.splice(order.end(), order, found->second);
      continue;
    }
    if (order.size() == capacity) {
      places.erase(order.front());
      order.pop_front();
    }
    places[block] = order.insert(misses++ % 32 == 0 ? order.end() : order.begin(), block);
  }
  return hits;
}

// S3-FIFO: a small queue for new blocks, a main queue with second chances, and ghosts of the small
// queue. Without `sees_hits`, it does not see accesses to resident blocks, as the library does not.
std::size_t hits_of_s3_fifo(const Row& row, bool sees_hits) {
  constexpr std::size_t small_max = capacity / 10;
  std::deque<std::uint32_t> small, main, ghosts;
  std::unordered_map<std::uint32_t, int> frequency;  // of resident blocks
  std::unordered_map<std::uint32_t, int> ghost_count;
  std::size_t hits = 0;
  const auto evict = [&] {
    for (;;) {
      if (small.size() > small_max || main.empty()) {
        const std::uint32_t block = small.front();
        small.pop_front();
        if (frequency[block] > 1) {
          frequency[block] = 0;
          main.push_back(block);
          continue;
        }
        frequency.erase(block);
        ghosts.push_back(block);
        ++ghost_count[block];
        if (ghosts.size() > capacity - small_max) {
          --ghost_count[ghosts.front()];
          ghosts.pop_front();
        }
        return;
      }
      const std::uint32_t block = main.front();
      main.pop_front();
      if (frequency[block] > 0) {
        --frequency[block];
        main.push_back(block);
        continue;
      }
      frequency.erase(block);
      return;
    }
  };
  for (std::size_t i = 0; i < row.trace.size(); ++i) {
    const std::uint32_t block = row.trace[i];
    if (const auto found = frequency.find(block); found != frequency.end()) {
      hits += i >= row.first ? 1 : 0;
      if (sees_hits) found->second = std::min(3, found->second + 1);
      continue;
    }
    while (small.size() + main.size() >= capacity) evict();
    (ghost_count[block] > 0 ? main : small).push_back(block);
    frequency[block] = 0;
  }
  return hits;
}

// The library's policy. `samples_per_miss`: how many blocks it samples for each miss, on average.
// `seen_share`: the share of the accesses to sampled blocks that it sees.
std::size_t hits_of_ours(const Row& row, double samples_per_miss, double seen_share) {
  std::vector<ReplacementLinks> links(1 << 14);
  Replacement replacement(links);
  std::vector<bool> held(links.size());
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::size_t hits = 0;
  double to_sample = 0;
  for (std::size_t i = 0; i < row.trace.size(); ++i) {
    const std::uint32_t block = row.trace[i];
    if (held[block]) {
      hits += i >= row.first ? 1 : 0;
      if (replacement.is_sampled(block) && uniform(random) < seen_share)
        replacement.accessed(block);
      continue;
    }
    if (replacement.size() == capacity) {
      const std::uint64_t victim = *replacement.victim();
      held[victim] = false;
      replacement.left(victim, Replacement::LeftBy::evicted);
      for (to_sample += samples_per_miss; to_sample >= 1; --to_sample) (void)replacement.sample();
    }
    held[block] = true;
    replacement.came(block);
  }
  return hits;
}

AccessTrace operator+(AccessTrace one, const AccessTrace& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

AccessTrace moved_by(AccessTrace trace, std::uint32_t blocks) {
  for (std::uint32_t& block : trace) block += blocks;
  return trace;
}

// A hot set, and between its accesses a scan whose blocks are accessed only once.
AccessTrace hot_and_scan(std::uint32_t hot, std::size_t accesses, unsigned scan_one_in) {
  std::mt19937_64 random(seed);
  AccessTrace trace;
  std::uint32_t scanned = hot;
  for (std::size_t i = 0; i < accesses; ++i)
    trace.push_back(i % scan_one_in == 0 ? scanned++ : static_cast<std::uint32_t>(random() % hot));
  return trace;
}

// Random accesses within a window that moves slowly.
AccessTrace sliding(std::uint32_t window, std::size_t accesses, std::size_t per_step) {
  std::mt19937_64 random(seed);
  AccessTrace trace;
  for (std::size_t i = 0; i < accesses; ++i)
    trace.push_back(static_cast<std::uint32_t>(i / per_step + random() % window));
  return trace;
}

AccessTrace phases(std::uint32_t blocks, std::size_t rounds) {
  AccessTrace trace;
  for (std::uint32_t phase = 0; phase < 4; ++phase)
    trace = trace + moved_by(wherry::tool::sweep_trace(blocks, rounds), phase * blocks);
  return trace;
}

std::vector<Row> rows() {
  using namespace wherry::tool;
  constexpr std::uint32_t c = capacity;
  return {
      {"sweep 1.25x", sweep_trace(c * 5 / 4, 40), c * 5 / 2},
      {"sweep 2x", sweep_trace(c * 2, 40), c * 4},
      {"sweep 4x", sweep_trace(c * 4, 40), c * 8},
      {"random 2x", random_trace(c * 2, 20'000, seed), 1000},
      {"zipf 1.0 of 4x", zipf_trace(c * 4, 40'000, 1.0, seed), 1000},
      {"zipf 0.7 of 4x", zipf_trace(c * 4, 40'000, 0.7, seed), 1000},
      {"hot 0.75x + scan", hot_and_scan(c * 3 / 4, 20'000, 2), 1000},
      {"hot 0.5x + scan 1:8", hot_and_scan(c / 2, 20'000, 8), 1000},
      {"sliding window 0.75x", sliding(c * 3 / 4, 40'000, 20), 1000},
      {"sliding window 0.25x", sliding(c / 4, 40'000, 5), 1000},
      {"phases of sweeps 0.75x", phases(c * 3 / 4, 30), 0},
      {"phases of sweeps 1.5x", phases(c * 3 / 2, 30), 0},
      {"sweep 2x, then zipf", sweep_trace(c * 2, 10) + zipf_trace(c * 4, 10'000, 1.0, seed), 0},
  };
}

}  // namespace

int main() {
  fmt::print("{:24}{:>7}{:>7}{:>7}{:>7}{:>7}{:>9}{:>7}{:>7}{:>9}{:>9}\n", "hit rate", "LRU", "FIFO",
             "random", "BIP", "S3-F", "S3-F bl", "OPT", "blind", "sampled", "poorly");
  for (const Row& row : rows()) {
    const auto rate = [&](std::size_t hits) {
      return static_cast<double>(hits) / static_cast<double>(row.trace.size() - row.first);
    };
    fmt::print(
        "{:24}{:7.2f}{:7.2f}{:7.2f}{:7.2f}{:7.2f}{:9.2f}{:7.2f}{:7.2f}{:9.2f}{:9.2f}\n", row.name,
        rate(wherry::tool::hits_of_lru(row.trace, capacity, row.first)), rate(hits_of_fifo(row)),
        rate(wherry::tool::hits_of_random(row.trace, capacity, row.first, seed)),
        rate(hits_of_bip(row)), rate(hits_of_s3_fifo(row, true)), rate(hits_of_s3_fifo(row, false)),
        rate(wherry::tool::hits_of_optimum(row.trace, capacity, row.first)),
        rate(hits_of_ours(row, 0, 0)), rate(hits_of_ours(row, 1, 1)),
        rate(hits_of_ours(row, 1, 0.2)));
  }
}
