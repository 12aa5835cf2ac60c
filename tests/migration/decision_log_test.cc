// The latest decisions, as many as fit into the log, also while other threads write.
#include "migration/decision_log.h"

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::decision_log_test {
namespace {

using impl::DecisionLog;
using impl::DecisionRecord;

// All fields are derived from one number.
DecisionRecord record(std::uint64_t number) {
  DecisionRecord record;
  record.time_ns = number;
  record.block = {number % 3};
  record.run = {static_cast<unsigned>(number % 500), 2};
  record.waited_ns = ~number;
  return record;
}

TEST_CASE("the latest decisions about a page come first, and only those about it") {
  DecisionLog log;
  CHECK(log.latest({0}, 0, 8).empty());
  log.add({.time_ns = 1, .block = {7}, .run = {0, 16}});
  log.add({.time_ns = 2, .block = {7}, .run = {16, 16}});
  log.add({.time_ns = 3, .block = {8}, .run = {0, 16}});
  log.add({.time_ns = 4, .block = {7}, .run = {15, 1}});
  const auto found = log.latest({7}, 15, 8);
  REQUIRE(found.size() == 2);
  CHECK(found[0].time_ns == 4);
  CHECK(found[1].time_ns == 1);
  CHECK(log.latest({7}, 15, 1).size() == 1);
  CHECK(log.latest({7}, 32, 8).empty());
}

TEST_CASE("decisions before a page's release are not part of its history") {
  DecisionLog log;
  log.add({.time_ns = 1, .block = {7}, .run = {0, 16}});
  log.add({.time_ns = 2, .block = {7}, .run = {0, 8}, .cause = impl::EventCause::release});
  log.add({.time_ns = 3, .block = {7}, .run = {4, 8}});
  CHECK(log.latest({7}, 0, 8).empty());
  CHECK(log.latest({7}, 5, 8).size() == 1);
  CHECK(log.latest({7}, 9, 8).size() == 2);
}

TEST_CASE("the oldest decisions are overwritten") {
  DecisionLog log;
  log.add({.time_ns = 1, .block = {1}, .run = {0, 1}});
  for (std::size_t i = 1; i < DecisionLog::capacity; ++i) log.add({.time_ns = 2, .block = {2}});
  CHECK(log.latest({1}, 0, 8).size() == 1);
  log.add({.time_ns = 3, .block = {2}});
  CHECK(log.latest({1}, 0, 8).empty());
}

TEST_CASE("no reader sees half of a decision, however many threads write") {
  DecisionLog log;
  std::atomic<bool> done = false;
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i)
    writers.emplace_back([&log, i] {
      for (std::uint64_t n = 0; n < 100'000; ++n) log.add(record(3 * n + i));
    });
  std::thread end([&] {
    for (auto& writer : writers) writer.join();
    done = true;
  });
  bool whole = true;
  do {
    for (const DecisionRecord& seen : log.latest({1}, 100, 64)) {
      const DecisionRecord expected = record(seen.time_ns);
      whole = whole && seen.block == expected.block && seen.run == expected.run &&
              seen.waited_ns == expected.waited_ns;
    }
  } while (!done);
  end.join();
  CHECK(whole);
}

}  // namespace
}  // namespace wherry::test::decision_log_test
