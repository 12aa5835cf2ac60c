// What `wherry top` shows of pages that could not move. tools/top_test.py tests the rest, of a
// program that runs.
#include "top_view.h"

#include <algorithm>
#include <string>

#include "support/catch.h"

namespace wherry::tool::top_view_test {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

std::size_t number_of(std::string_view counter) {
  return static_cast<std::size_t>(std::ranges::find(counter_names, counter) -
                                  counter_names.begin());
}

// The status of a program whose host and device have so many held pages, which could not leave.
ProgramStatus program(std::uint64_t time_ns, std::uint64_t host, std::uint64_t device) {
  ProgramStatus status;
  status.time_ns = time_ns;
  status.pools.resize(2);
  status.pools[0].counters[number_of("held")] = host;
  status.pools[1].counters[number_of("held")] = device;
  return status;
}

std::vector<std::string> lines_about_held(const ProgramStatus& before, const ProgramStatus& now) {
  std::vector<std::string> lines = to_lines(before, now, 120, 100);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("held"); });
  return lines;
}

}  // namespace

TEST_CASE("a line names the pools in which pages were held") {
  CHECK(lines_about_held(program(0, 0, 100), program(2 * second_ns, 0, 100 + 1024)) ==
        std::vector<std::string>{"held, so not moved: device 0 2.0 MiB/s (docs/system-calls.md)"});
  CHECK(lines_about_held(program(0, 0, 0), program(second_ns, 512, 256)) ==
        std::vector<std::string>{
            "held, so not moved: host 2.0 MiB/s, device 0 1.0 MiB/s (docs/system-calls.md)"});
}

TEST_CASE("there is no such line if no page was held in that time") {
  CHECK(lines_about_held(program(0, 7, 9), program(second_ns, 7, 9)).empty());
}

TEST_CASE("JSON has the counter of each pool") {
  const auto pools = to_json(program(second_ns, 512, 256)).at("pools");
  CHECK(pools.at(0).at("counters").at("held") == 512);
  CHECK(pools.at(1).at("counters").at("held") == 256);
}

}  // namespace wherry::tool::top_view_test
