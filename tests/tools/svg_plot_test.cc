#include "svg_plot.h"

#include <cstdlib>
#include <regex>
#include <vector>

#include "support/catch.h"

namespace wherry::tool::svg_plot_test {
namespace {

// All values of the attribute in elements of this kind, in the order of the text.
std::vector<double> values_of(const std::string& svg, const std::string& element,
                              const std::string& attribute) {
  const std::regex pattern("<" + element + " [^>]*\\b" + attribute +
                           "=\"([-0-9.]+)\"[^>]*><title>");
  std::vector<double> values;
  for (std::sregex_iterator match(svg.begin(), svg.end(), pattern), end; match != end; ++match)
    values.push_back(std::strtod((*match)[1].str().c_str(), nullptr));
  return values;
}

std::size_t count_of(const std::string& svg, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("the lengths of bars are in the ratio of their values") {
  const std::string svg = to_svg({"title",
                                  "machine",
                                  {{"bandwidth (GiB/s)",
                                    PlotAxis::linear,
                                    {"fault", "prefetch"},
                                    {{"0 to 1", {1, 4}}, {"1 to 0", {no_value, 2}}}}}});
  const std::vector<double> widths = values_of(svg, "rect", "width");
  REQUIRE(widths.size() == 3);
  CHECK(widths[1] == Catch::Approx(4 * widths[0]).epsilon(0.01));
  CHECK(widths[2] == Catch::Approx(2 * widths[0]).epsilon(0.01));
  for (const char* text : {"title", "machine", "bandwidth (GiB/s)", "fault", "0 to 1", "1 to 0"})
    CHECK(count_of(svg, std::string(">") + text + "<") >= 1);
}

TEST_CASE("equal ratios are equal distances on a logarithmic axis") {
  const std::string svg =
      to_svg({"t", "m", {{"ratio", PlotAxis::logarithmic, {"a", "b", "c"}, {{"row", {1, 3, 9}}}}}});
  const std::regex dot("translate\\(([0-9.]+) [0-9.]+\\)\"[^>]*><title>");
  std::vector<double> x;
  for (std::sregex_iterator match(svg.begin(), svg.end(), dot), end; match != end; ++match)
    x.push_back(std::strtod((*match)[1].str().c_str(), nullptr));
  REQUIRE(x.size() == 3);
  CHECK(x[1] - x[0] == Catch::Approx(x[2] - x[1]).margin(0.3));
  CHECK(x[1] > x[0]);
}

TEST_CASE("text cannot end an element") {
  const std::string svg =
      to_svg({"a<b", "\"&\"", {{"x>y", PlotAxis::linear, {"</svg>"}, {{"\x01", {1}}}}}});
  CHECK(count_of(svg, "</svg>") == 1);
  CHECK(count_of(svg, "a&lt;b") == 2);  // the title, and the text
  CHECK(count_of(svg, "&quot;&amp;&quot;") == 1);
  CHECK(count_of(svg, "\x01") == 0);
}

TEST_CASE("a plot without values has an axis") {
  for (const PlotAxis axis : {PlotAxis::linear, PlotAxis::logarithmic}) {
    const std::string svg = to_svg({"t", "m", {{"x", axis, {"a"}, {{"row", {no_value}}}}}});
    CHECK(count_of(svg, "<line ") >= 2);
    CHECK(count_of(svg, "nan") == 0);
  }
}

TEST_CASE("panels with the same series share a legend") {
  const PlotPanel panel{"x", PlotAxis::linear, {"only here"}, {{"row", {1}}}};
  CHECK(count_of(to_svg({"t", "m", {panel, panel}}), ">only here<") == 1);
  PlotPanel other = panel;
  other.series = {"there"};
  CHECK(count_of(to_svg({"t", "m", {panel, other}}), ">there<") == 1);
}

}  // namespace wherry::tool::svg_plot_test
