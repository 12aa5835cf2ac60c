// A plot as an SVG file: rows with a mark for each of several series, along a common axis. It needs
// no library: bars, dots, an axis and a legend are a few elements of text.
//
// Bars begin at 0, so that their lengths compare. On a logarithmic axis, which has no 0, values are
// dots. Series differ in colour (the palette of Okabe and Ito for colour-blind readers), and dots
// also in shape.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace wherry::tool {

enum class PlotAxis {
  linear,       // bars from 0
  logarithmic,  // dots; values are above 0
};

struct PlotRow {
  std::string label;
  // One for each of the panel's series; NaN for none.
  std::vector<double> values;
};

// One axis with its rows.
struct PlotPanel {
  std::string axis_label;  // with the unit: "bandwidth (GiB/s)"
  PlotAxis axis = PlotAxis::linear;
  std::vector<std::string> series;
  std::vector<PlotRow> rows;
};

struct Plot {
  std::string title;
  std::string subtitle;           // the machine and the settings
  std::vector<PlotPanel> panels;  // one below the other
};

inline constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

// Returns the text of the SVG file. Requires: each row has a value for each series of its panel.
// Throws std::bad_alloc.
std::string to_svg(const Plot& plot);

}  // namespace wherry::tool
