#include "faults/fault_daemon.h"

#include <catch2/catch.hpp>

#include <numeric>

using namespace wherry::impl;

namespace {

std::vector<int> cpus_from(int first, std::size_t count) {
  std::vector<int> cpus(count);
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

}  // namespace

TEST_CASE("each CPU has a handler of its own if there are few CPUs") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, handlers_max}) {
    const auto groups = divide_among_handlers(cpus_from(3, count));
    REQUIRE(groups.size() == count);
    for (std::size_t i = 0; i < count; ++i)
      CHECK(groups[i] == std::vector<int>{3 + static_cast<int>(i)});
  }
}

TEST_CASE("on a large machine each CPU has a handler, which it shares with its neighbours") {
  for (const std::size_t count : {std::size_t{33}, std::size_t{192}, std::size_t{1500}}) {
    const std::vector<int> cpus = cpus_from(0, count);
    const auto groups = divide_among_handlers(cpus);
    CHECK(groups.size() == handlers_max);
    std::vector<int> all;
    for (const auto& group : groups) {
      CHECK(group.size() >= count / handlers_max);
      CHECK(group.size() <= count / handlers_max + 1);
      all.insert(all.end(), group.begin(), group.end());
    }
    CHECK(all == cpus);
  }
}
