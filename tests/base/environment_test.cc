#include "base/environment.h"

#include <string>
#include <vector>

#include "support/catch.h"

namespace wherry::impl::environment_test {
namespace {

std::vector<std::string> complaints(std::vector<const char*> lines, bool privileged = false) {
  lines.push_back(nullptr);
  return environment_complaints(lines.data(), privileged);
}

}  // namespace

TEST_CASE("each misspelled variable gets a line that names the most similar one") {
  CHECK(complaints({"WHERRY_DEVICE=capacity=4M", "WHERRY_POLCIY=uvm"}) ==
        std::vector<std::string>{
            "WHERRY_DEVICE is not a setting of Wherry: did you mean WHERRY_DEVICES?",
            "WHERRY_POLCIY is not a setting of Wherry: did you mean WHERRY_POLICY?"});
}

TEST_CASE("a variable that is similar to none gets a line, too") {
  const std::string expected =
      "WHERRY_COLOUR_OF_PAGES is not a setting of Wherry: docs/tuning.md lists them";
  CHECK(complaints({"WHERRY_COLOUR_OF_PAGES=blue"}) == std::vector{expected});
}

TEST_CASE("known variables, those of tests and those of other programs get no line") {
  std::vector<std::string> known;
  for (const EnvironmentVariable& variable : environment_variables)
    known.push_back(std::string(variable.name) + "=x");
  std::vector<const char*> lines{"WHERRY_TEST_SEED=1", "PATH=/bin", "WHERRYLESS=1", "no name", ""};
  for (const std::string& line : known) lines.push_back(line.c_str());
  CHECK(complaints(lines).empty());
  CHECK(complaints({}).empty());
  CHECK(environment_complaints(nullptr, false).empty());
}

TEST_CASE("a line is printable and short for any name") {
  const std::string name = "WHERRY_\n\x1b[2J" + std::string(10'000, 'X');
  const auto lines = complaints({(name + "=1").c_str()});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() < 200);
  CHECK(lines[0].starts_with("WHERRY_??[2JX"));
}

TEST_CASE("a privileged program names the variables that it does not read in one line") {
  const auto lines = complaints(
      {"WHERRY_TRACE=/etc/shadow", "WHERRY_DEVICES=capacity=4M", "WHERRY_POLICY=/x.so"}, true);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("WHERRY_TRACE, WHERRY_POLICY: not read: "));
  CHECK(complaints({"WHERRY_DEVICES=capacity=4M"}, true).empty());
}

}  // namespace wherry::impl::environment_test
