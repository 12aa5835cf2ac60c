// The cost model of replays, and its file.
#include "replay/cost_model.h"

#include <string>
#include <vector>

#include "base/page.h"
#include "replay/cost_scale.h"
#include "support/catch.h"

namespace wherry::replay::cost_model_test {

using wherry::tool::Trace;

namespace {

CostModel some_costs() {
  CostModel costs;
  costs.populate_host = {1000.5, 20};
  costs.migrate_to_device = {7000, 450.25};
  costs.collapse_ns = 12'000;
  costs.read_remote_page_ns = 300;
  costs.machine = "Linux \"here\"";
  return costs;
}

// The file with one text replaced by another. Requires: the file contains the text.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(some_costs());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string wrong_in(const std::string& text) {
  const auto parsed = parse_cost_model(text);
  const auto* wrong = std::get_if<std::string>(&parsed);
  return wrong == nullptr ? std::string() : *wrong;
}

}  // namespace

TEST_CASE("costs read from their file are unchanged") {
  const auto parsed = parse_cost_model(to_json(some_costs()));
  REQUIRE(std::holds_alternative<CostModel>(parsed));
  const auto& costs = std::get<CostModel>(parsed);
  CHECK(costs.populate_host.fixed_ns == 1000.5);
  CHECK(costs.migrate_to_device.page_ns == 450.25);
  CHECK(costs.collapse_ns == 12'000);
  CHECK(costs.read_remote_page_ns == 300);
  CHECK(costs.minor_ns == 0);
  CHECK(costs.machine == "Linux \"here\"");
}

TEST_CASE("errors in a file of costs are reported") {
  CHECK(wrong_in("") == "it is not JSON");
  CHECK(wrong_in("{\"version\": 1") == "it is not JSON");
  CHECK(wrong_in("[1, 2]") == "it is not a cost file");
  CHECK(wrong_in("{}") == "it is not a cost file");
  CHECK(wrong_in(changed("\"version\": 1", "\"version\": 2")).find("version is 2") !=
        std::string::npos);
  CHECK(wrong_in(changed("\"duplicate\"", "\"copy\"")) == "'duplicate' is missing");
  CHECK(wrong_in(changed("\"minor_ns\"", "\"minor\"")) == "'minor_ns' is missing");
  CHECK(wrong_in(changed("\"page_ns\": 450.25", "\"per_page\": 1")) ==
        "'migrate_to_device.page_ns' is missing");
  CHECK(wrong_in(changed("450.25", "\"much\"")) == "'migrate_to_device.page_ns' is not a number");
  CHECK(wrong_in(changed("450.25", "null")) == "'migrate_to_device.page_ns' is not a number");
  CHECK(wrong_in(changed("12000.0", "-1")).find("'collapse_ns' is -1") != std::string::npos);
  CHECK_FALSE(wrong_in(changed("450.25", "1e999")).empty());
}

TEST_CASE("costs on a line are found again") {
  const std::vector<CostSample> samples{{1, 5010}, {16, 5160}, {512, 10'120}};
  const OperationCost cost = fit(samples);
  CHECK(cost.fixed_ns == Catch::Approx(5000));
  CHECK(cost.page_ns == Catch::Approx(10));
  CHECK(cost.of(16) == Catch::Approx(5160));
  CHECK(cost.of(0) == 0);
}

TEST_CASE("no part of a cost is negative") {
  const std::vector<CostSample> falling{{1, 500}, {16, 400}, {512, 300}};
  CHECK(fit(falling).page_ns == 0);
  CHECK(fit(falling).fixed_ns > 300);
  const std::vector<CostSample> steep{{1, 1}, {16, 100}, {512, 10'000}};
  CHECK(fit(steep).fixed_ns >= 0);
  CHECK(fit(steep).page_ns > 0);
}

TEST_CASE("costs follow the times of recorded migrations, without their faults' waits") {
  using namespace wherry::impl;
  CostModel costs;
  costs.migrate_to_host = costs.migrate_to_device = {10'000, 0};
  const auto record = [](unsigned faults) {
    Trace trace;
    trace.machine.page_bytes = page_size;
    trace.machine.block_bytes = block_size;
    trace.machine.processors.resize(2);
    for (unsigned i = 0; i < faults; ++i) {
      const std::uint64_t time = 1'000'000 * (i + 1);
      // The fault waits for 100 us. Then its page moves, and 15 us later it is answered.
      trace.events.push_back({.time_ns = time,
                              .duration_ns = 115'000,
                              .address = 5 * page_size + 7,
                              .bytes = page_size,
                              .kind = EventKind::fault,
                              .destination = 1});
      trace.events.push_back({.time_ns = time + 100'000,
                              .duration_ns = 14'000,
                              .address = 5 * page_size,
                              .bytes = page_size,
                              .kind = EventKind::migration,
                              .cause = EventCause::fault,
                              .source = 0,
                              .destination = 1});
    }
    return trace;
  };
  const auto scale = [&](const Trace& trace) {
    const auto timeline = make_timeline(trace);
    return cost_scale(std::get<Timeline>(timeline), costs);
  };
  CHECK(scale(record(100)) == Catch::Approx(1.5));
  CHECK(scale(record(3)) == 1);
  CHECK(scale(record(0)) == 1);
  CHECK(scaled(costs, 1.5).migrate_to_device.fixed_ns == Catch::Approx(15'000));
}

}  // namespace wherry::replay::cost_model_test
