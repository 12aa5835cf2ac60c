#include "cg_report.h"

#include <fmt/core.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t page_bytes = 4096;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

std::uint64_t bytes(std::uint64_t pages) {
  return pages * page_bytes;
}

double page_mebibytes_of(std::uint64_t pages) {
  return static_cast<double>(bytes(pages)) / (1 << 20);
}

std::string processor_name(std::size_t index) {
  return index == 0 ? "host" : fmt::format("device {}", index - 1);
}

std::string phase_table(const PhaseRecorder& phases) {
  std::string text =
      fmt::format("{:<10}{:>12}{:>10}{:>10}{:>14}{:>10}{:>14}{:>11}\n", "phase", "time", "faults",
                  "new pages", "pages moved", "MiB moved", "pages copied", "MiB copied");
  const auto row = [&](const char* name, const PhaseTotals& totals) {
    const wherryProcessorStats sum = totals.sum();
    text += fmt::format("{:<10}{:>9.1f} ms{:>10}{:>10}{:>14}{:>10.1f}{:>14}{:>11.1f}\n", name,
                        milliseconds(totals.time), faults(sum), sum.populated, sum.migrated_in,
                        page_mebibytes_of(sum.migrated_in), sum.duplicated,
                        page_mebibytes_of(sum.duplicated));
  };
  for (const Phase phase : all_phases) row(to_string(phase), phases.totals(phase));
  row("total", phases.all());
  return text;
}

// Why pages move to a processor in a phase. A "late fault" is handled after another fault has
// already served its access, when the processor may have nothing to do any more.
const char* why(Phase phase, bool host, bool advised) {
  switch (phase) {
    case Phase::assemble:
      return host ? "writes A and the vectors" : "late fault";
    case Phase::exchange:
      return host      ? "writes p for devices, reads their q"
             : advised ? "is preferred for p"
                       : "late fault";
    case Phase::multiply:
      return host ? "takes what full pools evict" : "reads A and p, writes q";
    case Phase::vectors:
      return host ? "updates x, r, z and p" : "late fault";
    case Phase::check:
      return host ? "reads x" : "late fault";
  }
  return "?";
}

// One row for each processor and phase in which pages came to the processor.
std::string movement_table(const PhaseRecorder& phases, bool advised) {
  std::string text = fmt::format("{:<15}{:<37}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>12}{:>10}\n",
                                 "pages came to", "because it", "new", "moved", "copied", "mapped",
                                 "evicted", "faults", "handling", "a fault");
  for (const Phase phase : all_phases) {
    const PhaseTotals& totals = phases.totals(phase);
    for (std::size_t i = 0; i < totals.work.size(); ++i) {
      const wherryProcessorStats& work = totals.work[i];
      const std::uint64_t fault_count = faults(work);
      if (fault_count + work.populated + work.migrated_in + work.duplicated + work.evicted == 0)
        continue;
      const double handling_ns = static_cast<double>(work.service_ns);
      text += fmt::format(
          "{:<15}{:<37}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9.1f} ms{:>7.1f} us\n", processor_name(i),
          why(phase, i == 0, advised), work.populated, work.migrated_in, work.duplicated,
          work.mapped_remotely, work.evicted, fault_count, handling_ns / 1e6,
          fault_count == 0 ? 0 : handling_ns / 1e3 / static_cast<double>(fault_count));
    }
  }
  return text;
}

std::string placement_table(const std::vector<Placement>& placements) {
  std::string text = fmt::format("{:<15}{:>8}{:>8}", "arrays", "MiB", "pages");
  for (std::size_t i = 0; i < placements.front().resident.size(); ++i)
    text += fmt::format("{:>10}", processor_name(i));
  text += '\n';
  for (const Placement& placement : placements) {
    text += fmt::format("{:<15}{:>8.1f}{:>8}", placement.arrays, page_mebibytes_of(placement.pages),
                        placement.pages);
    for (const std::uint64_t pages : placement.resident) text += fmt::format("{:>10}", pages);
    text += '\n';
  }
  return text;
}

// migrated_in and service_ns have other names or units in the report.
Json counters(const wherryProcessorStats& work) {
  Json json{{"faults", faults(work)},
            {"migrations", work.migrated_in},
            {"migrated_bytes", bytes(work.migrated_in)},
            {"duplicated_bytes", bytes(work.duplicated)},
            {"service_seconds", static_cast<double>(work.service_ns) / 1e9}};
  for (const CounterField& field : counter_fields)
    if (field.value != &wherryProcessorStats::migrated_in &&
        field.value != &wherryProcessorStats::service_ns)
      json[field.name] = work.*field.value;
  return json;
}

Json phase_json(const char* name, const PhaseTotals& totals) {
  Json phase{{"name", name}, {"seconds", milliseconds(totals.time) / 1e3}};
  phase.update(counters(totals.sum()));
  phase["processors"] = Json::array();
  for (std::size_t i = 0; i < totals.work.size(); ++i) {
    Json processor{{"name", processor_name(i)}};
    processor.update(counters(totals.work[i]));
    phase["processors"].push_back(std::move(processor));
  }
  return phase;
}

}  // namespace

std::string as_text(const CgReport& report) {
  const wherryProcessorStats& later = report.after_first_iteration;
  return fmt::format(
             "matrix     {}: {} rows, {} entries\n"
             "devices    {}{}\n"
             "solution   {} iterations, |b - Ax| / |b| = {:.3e} (asked for {:.1e})\n"
             "check      the same solver on ordinary memory gives the same solution, bit for "
             "bit\n\n",
             report.matrix, report.rows, report.entries, report.devices,
             report.advised ? ", with advice" : "", report.result.iterations,
             report.relative_residual, report.tolerance) +
         phase_table(*report.phases) +
         fmt::format(
             "After the first iteration: {} faults, {:.1f} MiB moved, {:.1f} MiB copied\n\n",
             faults(later), page_mebibytes_of(later.migrated_in),
             page_mebibytes_of(later.duplicated)) +
         movement_table(*report.phases, report.advised) + "\nWhere the pages are now:\n" +
         placement_table(report.placements);
}

std::string as_json(const CgReport& report) {
  const PhaseTotals total = report.phases->all();
  const wherryProcessorStats sum = total.sum();
  Json json{{"matrix", report.matrix},
            {"rows", report.rows},
            {"entries", report.entries},
            {"devices", report.devices},
            {"tolerance", report.tolerance},
            {"iterations", report.result.iterations},
            {"relative_residual", report.relative_residual},
            {"equals_ordinary_memory", true},
            {"seconds", milliseconds(total.time) / 1e3},
            {"faults", faults(sum)},
            {"migrations", sum.migrated_in},
            {"migrated_bytes", bytes(sum.migrated_in)},
            {"advised", report.advised},
            {"duplicated_bytes", bytes(sum.duplicated)},
            {"after_first_iteration", counters(report.after_first_iteration)}};
  json["phases"] = Json::array();
  for (const Phase phase : all_phases)
    json["phases"].push_back(phase_json(to_string(phase), report.phases->totals(phase)));
  json["placements"] = Json::array();
  for (const Placement& placement : report.placements) {
    json["placements"].push_back({{"arrays", placement.arrays},
                                  {"pages", placement.pages},
                                  {"resident", placement.resident}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace wherry::tool
