// Random scripts of allocations, advice and touches by the host and two devices give what a plain model
// gives: every page its last value, every range the attributes that were advised. The devices are so
// small that they evict all the time. A script that fails is made shorter and printed.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "stress/advice_script.h"
#include "stress/shrink.h"
#include "support/conditions.h"

namespace wherry::test {
namespace {

constexpr std::uint64_t operations_wanted = 300'000;
constexpr std::size_t operations_per_script = 3'000;
constexpr int trials_max = 300;

ScriptRunner& runner() {
  // Shared with the devices, so mapped before they start.
  static void* const table = ::mmap(nullptr, ScriptRunner::table_bytes, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static const Session session{"capacity=2M,workers=1;capacity=2M,workers=1"};
  static ScriptRunner the_runner{session, table};
  return the_runner;
}

std::string text_of(const Script& script) {
  std::string text;
  for (const Operation& operation : script) text += operation.describe() + "\n";
  return text;
}

TEST_CASE("what fails is shortened to what it takes to fail", "[stress]") {
  std::vector<int> script(1000);
  for (int i = 0; i < 1000; ++i) script[static_cast<std::size_t>(i)] = i;
  int trials = 0;
  const auto fails = [&](const std::vector<int>& part) {
    ++trials;
    const auto holds = [&](int value) {
      return std::find(part.begin(), part.end(), value) != part.end();
    };
    return holds(17) && holds(500) && holds(999);
  };
  CHECK(shrink(script, fails, 1000) == std::vector<int>{17, 500, 999});
  trials = 0;
  CHECK(fails(shrink(script, fails, 5)));
  CHECK(trials == 6);
}

TEST_CASE("random advice and touches give what a plain model gives", "[stress]") {
  std::mt19937_64 random{seed()};
  const std::uint64_t operations = scaled(operations_wanted);
  for (std::uint64_t done = 0; done < operations; done += operations_per_script) {
    const Script script = draw_script(random, operations_per_script);
    const auto failure = runner().run(script);
    if (!failure) continue;
    Script shortest(script.begin(),
                    script.begin() + static_cast<std::ptrdiff_t>(failure->operation) + 1);
    const auto fails = [](const Script& part) { return runner().run(part).has_value(); };
    if (failure->repeatable && fails(shortest)) shortest = shrink(shortest, fails, trials_max);
    FAIL("operation " << done + failure->operation << " " << failure->what << ":\n"
                      << text_of(shortest));
  }
  const wherryStats stats = read_stats();
  std::printf("%llu operations, %llu faults, %llu migrated, %llu duplicated, %llu remote\n",
              static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(stats.faults_missing + stats.faults_minor +
                                              stats.faults_write_protect),
              static_cast<unsigned long long>(stats.migrated_in),
              static_cast<unsigned long long>(stats.duplicated),
              static_cast<unsigned long long>(stats.mapped_remotely));
  CHECK(stats.migrated_in > 0);
  CHECK(stats.evicted > 0);
  CHECK(stats.duplicated > 0);
  CHECK(stats.collapsed > 0);
  CHECK(stats.mapped_remotely > 0);
}

}  // namespace
}  // namespace wherry::test
