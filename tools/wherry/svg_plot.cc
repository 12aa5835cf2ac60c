#include "svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace wherry::tool {
namespace {

// All lengths in this file are in pixels.
constexpr double margin = 20;
constexpr double plot_width = 560;
constexpr double font = 13;
constexpr double character = 7.2;  // the width of most characters of such a font, generously
constexpr double line = 20;
constexpr double bar_height = 11;
constexpr double row_gap = 9;
constexpr double dot_row = 26;
constexpr double axis_height = 46;
constexpr double panel_gap = 14;
constexpr double value_space = 60;  // for the figure behind the longest bar
constexpr int ticks_wanted = 6;

// The palette of Okabe and Ito, without the yellow that is hard to see on white.
constexpr std::array colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                             "#d55e00", "#56b4e9", "#000000", "#999999"};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML has no other control characters.
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return result;
}

std::string figure(double value) {
  if (value != 0 && (std::abs(value) < 0.01 || std::abs(value) >= 1e6))
    return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, std::abs(value) < 10 ? 2 : std::abs(value) < 100 ? 1 : 0);
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

// The places of values on the axis, and its ticks.
class Scale {
 public:
  explicit Scale(const PlotPanel& panel) : axis_(panel.axis) {
    double least = std::numeric_limits<double>::max();
    double most = 0;
    for (const PlotRow& row : panel.rows)
      for (const double value : row.values)
        if (!std::isnan(value)) {
          least = std::min(least, value);
          most = std::max(most, value);
        }
    if (most <= 0) least = most = 1;  // no values at all
    if (axis_ == PlotAxis::linear)
      choose_linear(most);
    else
      choose_logarithmic(least, most);
  }

  const std::vector<double>& ticks() const { return ticks_; }
  // The value's place on the axis, from 0 to 1.
  double at(double value) const {
    if (axis_ == PlotAxis::linear) return value / end_;
    return std::log(value / begin_) / std::log(end_ / begin_);
  }

 private:
  void choose_linear(double most) {
    const double rough = most / ticks_wanted;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double nice : {5.0, 2.0, 1.0})
      if (nice * power >= rough) step = nice * power;
    end_ = std::ceil(most / step) * step;
    for (int i = 0; i * step <= end_ + step / 2; ++i) ticks_.push_back(i * step);
  }
  // Ticks at 1, 2 and 5 times powers of ten; if there would be too many, at powers only.
  void choose_logarithmic(double least, double most) {
    const int first = static_cast<int>(std::floor(std::log10(least)));
    const int last = static_cast<int>(std::ceil(std::log10(most)));
    const bool only_powers = last - first > 3;
    for (int power = first; power <= last; ++power)
      for (const double nice : {1.0, 2.0, 5.0})
        if (nice == 1 || !only_powers) ticks_.push_back(nice * std::pow(10, power));
    // The narrowest range of ticks that contains all values, and is not empty.
    while (ticks_.size() > 2 && ticks_[1] <= least) ticks_.erase(ticks_.begin());
    while (ticks_.size() > 2 && ticks_[ticks_.size() - 2] >= most) ticks_.pop_back();
    begin_ = ticks_.front();
    end_ = ticks_.back();
  }

  const PlotAxis axis_;
  std::vector<double> ticks_;
  double begin_ = 0;
  double end_ = 1;
};

const char* colour_of(std::size_t series) {
  return colours[series % colours.size()];
}

// Five shapes and eight colours distinguish forty series. The centre is at 0, 0.
std::string dot_shape(std::size_t series) {
  switch (series % 5) {
    case 0:
      return "<circle r=\"5\"/>";
    case 1:
      return "<rect x=\"-4.5\" y=\"-4.5\" width=\"9\" height=\"9\"/>";
    case 2:
      return "<path d=\"M0 -6 L5.5 4.5 L-5.5 4.5 Z\"/>";
    case 3:
      return "<path d=\"M0 -6 L6 0 L0 6 L-6 0 Z\"/>";
    default:
      return "<path d=\"M-2 -6 H2 V-2 H6 V2 H2 V6 H-2 V2 H-6 V-2 H-2 Z\"/>";
  }
}

class Writer {
 public:
  explicit Writer(const Plot& plot) : plot_(plot) {
    std::size_t longest = 0;
    for (const PlotPanel& panel : plot.panels)
      for (const PlotRow& row : panel.rows) longest = std::max(longest, row.label.size());
    left_ = margin + static_cast<double>(longest) * character + 10;
    width_ = left_ + plot_width + value_space + margin;
  }

  std::string write() {
    y_ = margin + font;
    body_ += text_at(margin, y_, "start", plot_.title, " font-size=\"16\" font-weight=\"bold\"");
    y_ += line;
    body_ += text_at(margin, y_, "start", plot_.subtitle, " fill=\"#555555\"");
    y_ += line;
    const PlotPanel* previous = nullptr;
    for (const PlotPanel& panel : plot_.panels) {
      if (previous == nullptr || panel.series != previous->series) add_legend(panel);
      add_panel(panel);
      previous = &panel;
    }
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" font-family=\"sans-serif\" "
        "font-size=\"{2:.0f}\">\n<title>{3}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{4}</svg>\n",
        width_, y_, font, escaped(plot_.title), body_);
  }

 private:
  void add_legend(const PlotPanel& panel) {
    double x = margin;
    y_ += 6;
    for (std::size_t i = 0; i < panel.series.size(); ++i) {
      const double entry = static_cast<double>(panel.series[i].size()) * character + 40;
      if (x + entry > width_ - margin) {
        x = margin;
        y_ += line;
      }
      body_ += fmt::format("<g transform=\"translate({:.1f} {:.1f})\" fill=\"{}\">{}</g>\n", x + 6,
                           y_ - 4.5, colour_of(i),
                           panel.axis == PlotAxis::logarithmic
                               ? dot_shape(i)
                               : "<rect x=\"-6\" y=\"-6\" width=\"12\" height=\"12\"/>");
      body_ += text_at(x + 18, y_, "start", panel.series[i]);
      x += entry;
    }
    y_ += line;
  }

  void add_panel(const PlotPanel& panel) {
    const Scale scale(panel);
    const double bars = static_cast<double>(panel.series.size()) * bar_height;
    const double row_height =
        panel.axis == PlotAxis::logarithmic ? dot_row : std::max(bars, font) + row_gap;
    const double top = y_;
    const double bottom = top + row_height * static_cast<double>(panel.rows.size());
    for (const double tick : scale.ticks()) {
      const double x = left_ + scale.at(tick) * plot_width;
      body_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" "
          "stroke=\"{3}\"/>\n",
          x, top, bottom + 4, tick == scale.ticks().front() ? "#555555" : "#dddddd");
      body_ += text_at(x, bottom + 18, "middle", fmt::format("{:g}", tick));
    }
    for (const PlotRow& row : panel.rows) {
      body_ += text_at(left_ - 8, y_ + row_height / 2 + font / 3, "end", row.label);
      for (std::size_t i = 0; i < row.values.size(); ++i)
        if (!std::isnan(row.values[i])) add_value(panel, scale, row, i, row_height);
      y_ += row_height;
    }
    body_ += text_at(left_ + plot_width / 2, bottom + 37, "middle", panel.axis_label);
    y_ = bottom + axis_height + panel_gap;
  }

  void add_value(const PlotPanel& panel, const Scale& scale, const PlotRow& row, std::size_t series,
                 double row_height) {
    const double value = row.values[series];
    const double x = scale.at(value) * plot_width;
    // A browser shows this text under the pointer, and a screen reader says it.
    const std::string title = fmt::format("<title>{}, {}: {}</title>", escaped(row.label),
                                          escaped(panel.series[series]), figure(value));
    if (panel.axis == PlotAxis::logarithmic) {
      // Dots are one below the other, so that equal values can all be seen.
      const double place =
          (static_cast<double>(series) + 1) / (static_cast<double>(row.values.size()) + 1);
      body_ += fmt::format(
          "<g transform=\"translate({:.1f} {:.1f})\" fill=\"{}\" fill-opacity=\"0.85\" "
          "stroke=\"#ffffff\" stroke-width=\"0.7\">{}{}</g>\n",
          left_ + x, y_ + 4 + place * (row_height - 8), colour_of(series), title,
          dot_shape(series));
      return;
    }
    const double y = y_ + row_gap / 2 + static_cast<double>(series) * bar_height;
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "fill=\"{}\">{}</rect>\n",
        left_, y, x, bar_height - 1, colour_of(series), title);
    body_ += text_at(left_ + x + 4, y + bar_height - 2, "start", figure(value),
                     " font-size=\"10\" fill=\"#333333\"");
  }

  const Plot& plot_;
  std::string body_;
  double left_ = 0;   // where the axes begin
  double width_ = 0;  // of everything
  double y_ = 0;      // where the next element goes
};

}  // namespace

std::string to_svg(const Plot& plot) {
  return Writer(plot).write();
}

}  // namespace wherry::tool
