#include "migration/eviction_log.h"

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::eviction_log_test {

using namespace wherry::impl;

TEST_CASE("evictions are read once, in the order in which they were written") {
  EvictionLog log;
  std::array<Eviction, 8> taken;
  CHECK(log.take(taken) == 0);
  for (std::uint64_t i = 0; i < 10; ++i) log.add({.block = {i}});
  CHECK(log.take(taken) == 8);
  CHECK(taken[0].block.value == 0);
  CHECK(taken[7].block.value == 7);
  CHECK(log.take(taken) == 2);
  CHECK(taken[0].block.value == 8);
  CHECK(log.take(taken) == 0);
  CHECK(log.dropped() == 0);
}

TEST_CASE("evictions that do not fit are dropped and counted, and freed entries are reused") {
  EvictionLog log;
  for (std::uint64_t i = 0; i < EvictionLog::capacity + 5; ++i) log.add({.block = {i}});
  CHECK(log.dropped() == 5);
  std::vector<Eviction> taken(2 * EvictionLog::capacity);
  CHECK(log.take(taken) == EvictionLog::capacity);
  CHECK(taken[EvictionLog::capacity - 1].block.value == EvictionLog::capacity - 1);
  log.add({.block = {77}});
  CHECK(log.take(taken) == 1);
  CHECK(taken[0].block.value == 77);
  CHECK(log.dropped() == 5);
}

TEST_CASE("with several writers and a reader no eviction is lost uncounted, torn or read twice") {
  constexpr std::uint64_t threads = 3, each = 20'000;
  EvictionLog log;
  std::vector<std::thread> writers;
  for (std::uint64_t t = 0; t < threads; ++t) {
    writers.emplace_back([&log, t] {
      for (std::uint64_t i = 0; i < each; ++i)
        log.add({.block = {t * each + i}, .for_page = {~(t * each + i)}});
    });
  }
  std::set<std::uint64_t> seen;
  std::array<Eviction, 64> taken;
  bool torn = false, twice = false;
  const auto drain = [&] {
    while (const std::size_t count = log.take(taken)) {
      for (std::size_t i = 0; i < count; ++i) {
        torn = torn || taken[i].for_page.value != ~taken[i].block.value;
        twice = !seen.insert(taken[i].block.value).second || twice;
      }
    }
  };
  for (int round = 0; round < 200; ++round) drain();
  for (std::thread& writer : writers) writer.join();
  drain();
  CHECK_FALSE(torn);
  CHECK_FALSE(twice);
  CHECK(seen.size() + log.dropped() == threads * each);
}

}  // namespace wherry::test::eviction_log_test
