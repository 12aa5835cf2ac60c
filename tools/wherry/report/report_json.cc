#include "report_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "event_names.h"
#include "settings_json.h"
#include "trace_head.h"
#include "trace_labels.h"

namespace wherry::report {
namespace {

using Json = nlohmann::ordered_json;
using tool::processor_name;
using tool::TraceAbout;

// The page's tables have a row for each; more rows do not help people.
constexpr std::size_t memories_max = 200;
constexpr std::size_t kernels_max = 100;

std::size_t processors_of(const TraceReport& report) {
  return report.about.machine.processors.size();
}

Json processors_json(const TraceAbout& about) {
  Json json = Json::array();
  for (const impl::TraceProcessor& processor : about.machine.processors)
    json.push_back({{"name", processor_name(static_cast<int>(json.size()))},
                    {"kind", tool::to_string(processor.kind)},
                    {"capacity", processor.capacity},
                    {"workers", processor.workers},
                    {"nodes", processor.nodes}});
  return json;
}

Json about_json(const TraceReport& report) {
  const TraceAbout& about = report.about;
  const std::uint64_t dropped =
      std::accumulate(about.drops.begin(), about.drops.end(), std::uint64_t{0});
  return {{"program", about.machine.program},
          {"process", about.machine.process},
          {"trap", about.machine.trap},
          {"start_unix_ms", about.machine.start_unix_ns / 1'000'000},
          {"seconds", static_cast<double>(report.about.end_ns - about.machine.start_ns) / 1e9},
          {"events", report.events},
          {"dropped", dropped},
          {"complete", about.complete},
          {"processors", processors_json(about)},
          {"few_accesses",
           about.settings && tool::leaves_pages(about.settings->policy_in_force) == true},
          {"settings", tool::settings_json(about)}};
}

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() / 3 * 4 + 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t j) { return j < bytes.size() ? std::uint32_t{bytes[j]} : 0; };
    const std::uint32_t word = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[word >> shift & 63];
  }
  for (std::size_t i = 0; i < (3 - bytes.size() % 3) % 3; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

// An array by holder: its shares of all rows and bins, in base64, or null if it held nothing.
Json shares_json(const TraceReport& report) {
  Json json = Json::array();
  for (std::size_t holder = 0; holder < report.residency.holders(); ++holder) {
    std::vector<std::uint8_t> shares;
    for (std::size_t row = 0; row < report.rows.size(); ++row)
      for (std::size_t bin = 0; bin < report.bins.count; ++bin)
        shares.push_back(report.residency.share(holder, row, bin));
    const bool empty = std::ranges::all_of(shares, [](std::uint8_t share) { return share == 0; });
    json.push_back(empty ? Json() : Json(base64(shares)));
  }
  return json;
}

Json map_json(const TraceReport& report) {
  Json segments = Json::array();
  for (const Segment& segment : report.rows.segments())
    segments.push_back({{"name", segment.name},
                        {"begin", fmt::format("{:#x}", segment.extent.begin)},
                        {"bytes", segment.extent.bytes()},
                        {"first_row", segment.first_row},
                        {"rows", segment.rows},
                        {"row_bytes", segment.row_bytes}});
  return {{"rows", report.rows.size()},
          {"bytes_left_out", report.rows.bytes_left_out()},
          {"segments", segments},
          {"shares", shares_json(report)}};
}

void add_line(Json& lines, std::string_view name, const Timeline& timeline) {
  if (std::ranges::all_of(timeline, [](double value) { return value == 0; })) return;
  Json values = Json::array();
  for (const double value : timeline) values.push_back(static_cast<std::uint64_t>(value));
  lines.push_back({{"name", name}, {"values", std::move(values)}});
}

Json timelines_json(const TraceReport& report) {
  Json faults = Json::array(), moved = Json::array(), busy = Json::array();
  for (std::size_t i = 0; i < processors_of(report); ++i) {
    const std::string name = processor_name(static_cast<int>(i));
    add_line(faults, name, report.timelines.faults(i));
    add_line(busy, name, report.timelines.busy(i));
  }
  for (unsigned cause = 0; cause < impl::event_causes; ++cause) {
    const auto code = static_cast<impl::EventCause>(cause);
    add_line(moved, impl::to_string(code), report.timelines.moved(code));
  }
  add_line(moved, "read-only copies", report.timelines.copied());
  return {{"faults", faults}, {"moved_bytes", moved}, {"busy_ns", busy}};
}

Json use_json(const std::string& name, const MemoryUse& use, std::uint64_t page_bytes) {
  std::uint64_t evicted = 0, came = 0;
  for (const ProcessorUse& by : use.by) {
    evicted += by.evicted_pages;
    came = std::max(came, by.came_pages);
  }
  const std::uint64_t moved = use.all_moved_pages + use.copied_pages;
  return {{"name", name.empty() ? "(no name)" : name},
          {"bytes", use.bytes},
          {"faults", use.faults()},
          {"fault_ns", use.fault_ns()},
          {"moved_bytes", use.all_moved_pages * page_bytes},
          {"copied_bytes", use.copied_pages * page_bytes},
          {"evicted_bytes", evicted * page_bytes},
          {"moves_of_each_page", std::round(10 * static_cast<double>(moved) /
                                            static_cast<double>(std::max<std::uint64_t>(came, 1))) /
                                     10},
          {"thrashings", use.thrashings},
          {"throttled_ns", use.throttled_ns},
          {"held_bytes", use.held_pages * page_bytes}};
}

// The memories with the most traffic.
Json memory_json(const TraceReport& report) {
  std::vector<const MemoryUses::ByName::value_type*> uses;
  for (const auto& use : report.memory) uses.push_back(&use);
  std::ranges::stable_sort(uses, std::greater<>(), [](const auto* use) {
    return use->second.all_moved_pages + use->second.copied_pages;
  });
  uses.resize(std::min(uses.size(), memories_max));
  Json json = Json::array();
  for (const auto* use : uses)
    json.push_back(use_json(use->first, use->second, report.about.machine.page_bytes));
  return json;
}

// The kernels that took the most time.
Json kernels_json(const TraceReport& report) {
  std::vector<std::pair<std::string, KernelTimes>> kernels(report.timelines.kernels().begin(),
                                                           report.timelines.kernels().end());
  std::ranges::stable_sort(kernels, std::greater<>(),
                           [](const auto& kernel) { return kernel.second.time_ns; });
  kernels.resize(std::min(kernels.size(), kernels_max));
  Json json = Json::array();
  for (const auto& [name, times] : kernels)
    json.push_back({{"name", name}, {"launches", times.launches}, {"time_ns", times.time_ns}});
  return json;
}

Json findings_json(const TraceReport& report) {
  Json json = Json::array();
  for (const Finding& finding : report.findings)
    json.push_back({{"proposal", to_string(finding.proposal)},
                    {"memory", finding.memory},
                    {"processor", processor_name(finding.processor)},
                    {"observation", finding.observation},
                    {"evidence", finding.evidence},
                    {"attempt", finding.attempt},
                    {"cost_ns", finding.cost_ns},
                    {"pages", finding.pages}});
  return json;
}

}  // namespace

std::string to_json(const TraceReport& report) {
  const Json json{{"about", about_json(report)},
                  {"bins", {{"count", report.bins.count}, {"width_ns", report.bins.width_ns}}},
                  {"map", map_json(report)},
                  {"timelines", timelines_json(report)},
                  {"memory", memory_json(report)},
                  {"kernels", kernels_json(report)},
                  {"findings", findings_json(report)}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char letter : text)
    if (letter == '<')
      safe += "\\u003c";
    else
      safe += letter;
  return safe;
}

}  // namespace wherry::report
