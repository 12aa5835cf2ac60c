// Random programs on the whole API, compared with a model in plain memory: two or three host
// threads and three small devices, all kinds of memory, advice, prefetches, discards, copies,
// fills, pins, host functions, forks and resets, under every policy. Each seed runs in a process of
// its own. A failing case is shortened and printed.
//
// WHERRY_TEST_SEED     the first seed; each further process uses the next one
// WHERRY_TEST_REPLAY   runs the script in this file, WHERRY_TEST_TIMES times (default 1)
// WHERRY_TEST_SECONDS, WHERRY_TEST_FOLDER   as tools/soak sets them; for each failure the folder
// gets NAME.script as drawn, NAME.short and NAME.log
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "stress/model_process.h"
#include "stress/shrink.h"
#include "support/catch.h"
#include "support/conditions.h"
#include "support/soak.h"

namespace wherry::test::api_model_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::uint64_t operations_wanted = 400'000;
constexpr std::size_t operations_per_script = 4'000;
constexpr auto patience = seconds{60};
constexpr auto time_to_shorten = seconds{120};
constexpr std::uint64_t failures_to_shorten = 5;
constexpr std::uint64_t failures_to_keep = 100;
constexpr std::uint64_t processes_that_do_all = 8;

struct Totals {
  std::uint64_t operations = 0, processes = 0, failures = 0;
  CaseResult did;

  void add(const CaseResult& result) {
    operations += result.operations;
    ++processes;
    failures += result.failure ? 1 : 0;
    did.migrated += result.migrated;
    did.evicted += result.evicted;
    did.duplicated += result.duplicated;
    did.collapsed += result.collapsed;
    did.remote += result.remote;
  }
};

void report(const Case& drawn, const CaseResult& result, bool shortens) {
  const std::string name = "seed-" + std::to_string(drawn.seed);
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(drawn.seed),
              result.failure->c_str());
  std::fflush(stdout);
  keep_for_soak(name + ".script", text_of(drawn));
  keep_for_soak(name + ".log", *result.failure);
  if (!shortens) return;
  const Case shortest = shortened(drawn, result, time_to_shorten);
  keep_for_soak(name + ".short", text_of(shortest));
  std::printf("shortened to %zu operations:\n%s", shortest.script.size(),
              text_of(shortest).c_str());
  std::fflush(stdout);
}

std::string contents_of(const char* path) {
  std::ifstream file{path};
  if (!file) throw std::runtime_error(std::string{"cannot read "} + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int times_to_replay() {
  const char* const text = std::getenv("WHERRY_TEST_TIMES");
  return text != nullptr ? std::stoi(text) : 1;
}

TEST_CASE("a failing script is shortened to the operations that make it fail", "[stress]") {
  std::vector<int> script(1000);
  std::iota(script.begin(), script.end(), 0);
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

TEST_CASE("a case of the model is read back as it was printed", "[stress]") {
  const Case drawn = draw_case(seed(), 500);
  const std::string text = text_of(drawn);
  CHECK(text_of(case_from(text)) == text);
  CHECK_THROWS(case_from(text + "jump lane 0"));
  CHECK_THROWS(case_from("seed 1"));
}

TEST_CASE("random programs on the whole API agree with a model in plain memory", "[stress]") {
  if (const char* path = std::getenv("WHERRY_TEST_REPLAY")) {
    const Case replayed = case_from(contents_of(path));
    for (int n = times_to_replay(); n > 0; --n) {
      const CaseResult result = run_in_process(replayed, patience);
      if (result.failure) FAIL_CHECK(*result.failure);
    }
    return;
  }
  const auto time = soak_time();
  const auto end = Clock::now() + time.value_or(seconds{0});
  const std::uint64_t wanted = scaled(operations_wanted);
  Totals totals;
  for (std::uint64_t number = seed();
       time ? Clock::now() < end && totals.failures < failures_to_keep
            : totals.operations < wanted && totals.failures == 0;
       ++number) {
    const Case drawn = draw_case(number, operations_per_script);
    const CaseResult result = run_in_process(drawn, patience);
    totals.add(result);
    if (!result.failure) continue;
    report(drawn, result, !time || totals.failures <= failures_to_shorten);
  }
  std::printf("%llu migrated, %llu evicted, %llu duplicated, %llu collapsed, %llu remote\n",
              static_cast<unsigned long long>(totals.did.migrated),
              static_cast<unsigned long long>(totals.did.evicted),
              static_cast<unsigned long long>(totals.did.duplicated),
              static_cast<unsigned long long>(totals.did.collapsed),
              static_cast<unsigned long long>(totals.did.remote));
  std::printf("model: %llu operations, %llu processes, %llu failures\n",
              static_cast<unsigned long long>(totals.operations),
              static_cast<unsigned long long>(totals.processes),
              static_cast<unsigned long long>(totals.failures));
  CHECK(totals.failures == 0);
  if (totals.processes < processes_that_do_all) return;
  CHECK(totals.did.migrated > 0);
  CHECK(totals.did.evicted > 0);
  CHECK(totals.did.duplicated > 0);
  CHECK(totals.did.collapsed > 0);
  CHECK(totals.did.remote > 0);
}

}  // namespace
}  // namespace wherry::test::api_model_test
