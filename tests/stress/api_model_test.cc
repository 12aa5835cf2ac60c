// Random programs on the whole API give what plain memory gives: two or three host threads and three
// small devices, all kinds of memory, advice, prefetches, discards, copies, fills, pins, host functions,
// forks and resets, under every policy. Each seed is a process of its own. A case that fails is made
// shorter and printed.
//
//   WHERRY_TEST_SEED       the first seed; each next process has the next one
//   WHERRY_MODEL_SECONDS   runs new seeds for so long, and does not stop at a failure
//   WHERRY_MODEL_FOLDER    failures are written here: NAME.script as found, NAME.short, NAME.log
//   WHERRY_MODEL_REPLAY    runs this script, as often as WHERRY_MODEL_TIMES says (1)
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "stress/model_process.h"
#include "stress/shrink.h"
#include "support/conditions.h"

namespace wherry::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::uint64_t operations_wanted = 400'000;
constexpr std::size_t operations_per_script = 4'000;
constexpr auto patience = seconds{60};
constexpr auto time_to_shorten = seconds{120};
constexpr int failures_to_shorten = 5;

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

void write(const std::string& name, const std::string& text) {
  if (const char* folder = std::getenv("WHERRY_MODEL_FOLDER"))
    std::ofstream{std::string{folder} + "/" + name} << text;
}

void report(const Case& drawn, const CaseResult& result, bool shortens) {
  const std::string name = "seed-" + std::to_string(drawn.seed);
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(drawn.seed),
              result.failure->c_str());
  std::fflush(stdout);
  write(name + ".script", text_of(drawn));
  write(name + ".log", *result.failure);
  if (!shortens) return;
  const Case shortest = shortened(drawn, result, time_to_shorten);
  write(name + ".short", text_of(shortest));
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

int number_from(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoi(text) : otherwise;
}

TEST_CASE("what fails is shortened to what it takes to fail", "[stress]") {
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

TEST_CASE("random programs on the whole API give what plain memory gives", "[stress]") {
  if (const char* path = std::getenv("WHERRY_MODEL_REPLAY")) {
    const Case replayed = case_from(contents_of(path));
    for (int n = number_from("WHERRY_MODEL_TIMES", 1); n > 0; --n) {
      const CaseResult result = run_in_process(replayed, patience);
      if (result.failure) FAIL_CHECK(*result.failure);
    }
    return;
  }
  const int limit = number_from("WHERRY_MODEL_SECONDS", 0);
  const auto end = Clock::now() + seconds{limit};
  const std::uint64_t wanted = scaled(operations_wanted);
  Totals totals;
  for (std::uint64_t number = seed();
       limit > 0 ? Clock::now() < end : totals.operations < wanted && totals.failures == 0;
       ++number) {
    const Case drawn = draw_case(number, operations_per_script);
    const CaseResult result = run_in_process(drawn, patience);
    totals.add(result);
    if (!result.failure) continue;
    report(drawn, result, limit == 0 || totals.failures <= failures_to_shorten);
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
  CHECK(totals.did.migrated > 0);
  CHECK(totals.did.evicted > 0);
  CHECK(totals.did.duplicated > 0);
  CHECK(totals.did.collapsed > 0);
  CHECK(totals.did.remote > 0);
}

}  // namespace
}  // namespace wherry::test
