// The replacement on traces with known hit rates of other algorithms: which blocks it keeps, and
// its loss where LRU is optimal.
#include "policy/replacement.h"

#include <random>
#include <vector>

#include "access_trace.h"
#include "reference_replacement.h"
#include "support/catch.h"

namespace wherry::test::replacement_test {

using namespace wherry::impl;
using namespace wherry::tool;

namespace {

constexpr std::uint32_t capacity = 64;
constexpr std::uint64_t blocks = 1 << 14;

struct Setup {
  std::vector<ReplacementLinks> links = std::vector<ReplacementLinks>(blocks);
  Replacement replacement{links};

  void come(std::uint64_t block) { replacement.came(block); }
  void evict(std::uint64_t block) { replacement.left(block, Replacement::LeftBy::evicted); }
};

struct Rates {
  double ours;
  double lru;
  double optimum;
};

// The hit rates from access number `first` on. `samples`: for each eviction the next access to one
// block is observed; otherwise only misses are.
Rates play(const AccessTrace& trace, std::size_t first, bool samples) {
  Setup s;
  std::vector<bool> held(blocks);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::uint32_t block = trace[i];
    if (held[block]) {
      hits += i >= first ? 1 : 0;
      if (s.replacement.is_sampled(block)) s.replacement.accessed(block);
      continue;
    }
    if (s.replacement.size() == capacity) {
      const std::uint64_t victim = s.replacement.victim().value();
      held[victim] = false;
      s.evict(victim);
      if (samples) (void)s.replacement.sample();
    }
    held[block] = true;
    s.come(block);
  }
  s.replacement.check_invariants();
  const auto rate = [&](std::size_t count) {
    return static_cast<double>(count) / static_cast<double>(trace.size() - first);
  };
  return {rate(hits), rate(hits_of_lru(trace, capacity, first)),
          rate(hits_of_optimum(trace, capacity, first))};
}

}  // namespace

TEST_CASE("a repeated sweep over more than fits hits like a fixed part that is kept") {
  for (const bool samples : {false, true}) {
    const Rates quarter = play(sweep_trace(capacity * 5 / 4, 40), capacity * 5 / 2, samples);
    CHECK(quarter.lru == 0);
    CHECK(quarter.ours >= 0.7);
    CHECK(quarter.optimum >= quarter.ours);
    const Rates twice = play(sweep_trace(capacity * 2, 40), capacity * 4, samples);
    CHECK(twice.lru == 0);
    CHECK(twice.ours >= 0.42);
    const Rates four_times = play(sweep_trace(capacity * 4, 40), capacity * 8, samples);
    CHECK(four_times.ours >= 0.18);
  }
}

TEST_CASE("a scan without reuse does not evict blocks that are used all the time") {
  std::mt19937_64 random(1);
  AccessTrace trace;
  const std::uint32_t hot = capacity * 3 / 4;
  for (std::uint32_t i = 0; i < 20'000; ++i)
    trace.push_back(i % 2 == 0 ? hot + i / 2 : static_cast<std::uint32_t>(random() % hot));
  for (const bool samples : {false, true}) {
    const Rates rates = play(trace, 1000, samples);
    CHECK(rates.lru < 0.3);
    CHECK(rates.ours >= 0.45);  // at most 0.5 is possible
  }
}

TEST_CASE("where LRU is the best choice the replacement is not much worse") {
  std::mt19937_64 random(1);
  for (const std::uint32_t window : {capacity / 4, capacity / 2, capacity * 3 / 4}) {
    AccessTrace trace;
    for (std::uint32_t i = 0; i < 40'000; ++i)
      trace.push_back(i / 20 + static_cast<std::uint32_t>(random() % window));
    for (const bool samples : {false, true}) {
      const Rates rates = play(trace, 1000, samples);
      CHECK(rates.ours >= rates.lru - 0.03);
    }
  }
}

TEST_CASE("sampling makes up for unobserved hits if some blocks are more popular") {
  for (const double exponent : {0.7, 1.0}) {
    const AccessTrace trace = zipf_trace(capacity * 4, 40'000, exponent, 1);
    const Rates blind = play(trace, 1000, false);
    const Rates sampling = play(trace, 1000, true);
    CHECK(blind.ours >= blind.lru - 0.08);
    CHECK(sampling.ours >= sampling.lru);
    CHECK(sampling.ours > blind.ours);
  }
}

TEST_CASE("kept blocks are evicted when the program changes its working set") {
  AccessTrace trace;
  for (std::uint32_t phase = 0; phase < 4; ++phase) {
    for (const std::uint32_t block : sweep_trace(capacity * 3 / 4, 30))
      trace.push_back(phase * capacity + block);
  }
  for (const bool samples : {false, true}) {
    const Rates rates = play(trace, 0, samples);
    CHECK(rates.ours >= rates.lru - 0.05);
  }
}

TEST_CASE("an empty pool has no victim, and a pool with one block has that one") {
  Setup s;
  CHECK_FALSE(s.replacement.victim());
  CHECK_FALSE(s.replacement.sample());
  s.come(5);
  CHECK(s.replacement.victim() == 5u);
  s.evict(5);
  CHECK_FALSE(s.replacement.victim());
  s.come(5);
  s.replacement.left(5, Replacement::LeftBy::otherwise);
  CHECK(s.replacement.size() == 0);
}

TEST_CASE("victims that cannot leave are skipped until every block was tried") {
  Setup s;
  for (std::uint64_t block = 0; block < capacity; ++block) s.come(block);
  std::vector<bool> asked(capacity);
  for (std::uint32_t i = 0; i < capacity; ++i) {
    const std::uint64_t victim = s.replacement.victim().value();
    CHECK_FALSE(asked[victim]);
    asked[victim] = true;
    s.replacement.passed_over(victim);
    s.replacement.check_invariants();
  }
}

TEST_CASE("random calls leave links and sizes consistent") {
  Setup s;
  std::mt19937_64 random(7);
  std::vector<bool> held(200);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t block = random() % held.size();
    if (!held[block]) {
      s.come(block);
    } else if (random() % 2 == 0) {
      s.replacement.left(
          block, random() % 2 == 0 ? Replacement::LeftBy::evicted : Replacement::LeftBy::otherwise);
    } else {
      s.replacement.passed_over(block);
      s.replacement.accessed(block);
      (void)s.replacement.sample();
      continue;
    }
    held[block] = !held[block];
    if (i % 64 == 0) s.replacement.check_invariants();
    if (s.replacement.size() != 0) CHECK(held[s.replacement.victim().value()]);
  }
}

}  // namespace wherry::test::replacement_test
