#include "top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "byte_text.h"
#include "first_columns.h"
#include "memory_activity.h"
#include "trace_labels.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t bar_cells = 10;
constexpr std::size_t label_bytes_min = 12;
constexpr std::size_t label_bytes_max = 48;
// The width of a row of the table of memory without its label.
constexpr std::size_t figures_bytes = 52;

const char* kind_name(impl::ShownKind kind) {
  switch (kind) {
    case impl::ShownKind::host:
      return "host";
    case impl::ShownKind::isolated:
      return "isolated";
    case impl::ShownKind::coherent:
      return "coherent";
  }
  return "unknown";
}

// "[####      ]"; blanks if there is no limit.
std::string bar(const PoolStatus& pool) {
  if (pool.about.capacity_bytes == 0) return std::string(bar_cells + 2, ' ');
  const double part = static_cast<double>(std::min(pool.used_bytes, pool.about.capacity_bytes)) /
                      static_cast<double>(pool.about.capacity_bytes);
  const auto full = static_cast<std::size_t>(part * bar_cells + 0.5);
  return '[' + std::string(full, '#') + std::string(bar_cells - full, ' ') + ']';
}

std::string name_of_pool(std::size_t index) {
  return processor_name(static_cast<int>(index));
}

std::string capacity_text(const PoolStatus& pool) {
  return pool.about.capacity_bytes == 0 ? "no limit" : bytes_text(pool.about.capacity_bytes);
}

// The rates of one pool between two moments.
class Rates {
 public:
  Rates(const PoolStatus& before, const PoolStatus& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}

  double per_second(std::string_view counter) const {
    return static_cast<double>(now_.counter(counter) - before_.counter(counter)) / seconds_;
  }
  double mebibytes(std::string_view pages) const { return per_second(pages) * page_mebibytes; }
  double faults() const {
    return per_second("faults_missing") + per_second("faults_minor") +
           per_second("faults_write_protect");
  }

 private:
  const PoolStatus& before_;
  const PoolStatus& now_;
  const double seconds_;
};

// A table head for 80 columns. Terminals of at least wide_columns also show the bar and the node.
constexpr const char* pool_head = "{:<8}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}{:>8}{:>8}{:>7}";
constexpr std::size_t wide_columns = 100;

std::string pool_line(const std::string& name, const PoolStatus& pool, const Rates& rates,
                      bool is_wide) {
  std::string text =
      fmt::format("{:<8}{:>9}{:>9}{:>9.0f}{:>7.1f}{:>7.1f}{:>7.1f}{:>8.1f}{:>8.1f}{:>7.1f}", name,
                  bytes_text(pool.used_bytes), capacity_text(pool), rates.faults(),
                  rates.mebibytes("migrated_in"), rates.mebibytes("migrated_out"),
                  rates.mebibytes("duplicated"), rates.mebibytes("prefetched"),
                  rates.mebibytes("evicted"), rates.mebibytes("mapped_remotely"));
  if (is_wide) text += fmt::format(" {} node {}", bar(pool), pool.about.node);
  return text;
}

// Returns nullopt if no page had to stay because a system call or another process held it.
std::optional<std::string> held_line(const ProgramStatus& before, const ProgramStatus& now,
                                     double seconds) {
  std::string pools;
  for (std::size_t i = 0; i < now.pools.size(); ++i)
    if (const Rates rates(before.pools[i], now.pools[i], seconds); rates.per_second("held") != 0)
      pools += fmt::format("{}{} {:.1f} MiB/s", pools.empty() ? "" : ", ", name_of_pool(i),
                           rates.mebibytes("held"));
  if (pools.empty()) return std::nullopt;
  return fmt::format("held, so not moved: {} (docs/system-calls.md)", pools);
}

std::string policy_text(const ProgramStatus& status) {
  return status.policy == status.policy_in_force
             ? status.policy
             : fmt::format("{} ({})", status.policy, status.policy_in_force);
}

double seconds_between(const ProgramStatus& before, const ProgramStatus& now) {
  // At least 1 ns, because rates are divided by it.
  return static_cast<double>(std::max<std::uint64_t>(now.time_ns - before.time_ns, 1)) * 1e-9;
}

std::string memory_line(const MemoryActivity& memory, std::size_t label, double seconds) {
  return fmt::format("{:<{}}{:>12}{:>12.0f}{:>14.1f}{:>14.1f}", label_of(memory, label), label,
                     bytes_text(memory.bytes), static_cast<double>(memory.faults) / seconds,
                     static_cast<double>(memory.moved_bytes) / mebibyte / seconds,
                     static_cast<double>(memory.evicted_bytes) / mebibyte / seconds);
}

Json to_json(const std::string& name, const PoolStatus& pool) {
  Json counters = Json::object();
  for (std::size_t i = 0; i < counter_names.size(); ++i)
    counters[std::string(counter_names[i])] = pool.counters[i];
  const std::uint64_t capacity = pool.about.capacity_bytes;
  return {{"name", name},
          {"kind", kind_name(pool.about.kind)},
          {"node", pool.about.node},
          {"used_bytes", pool.used_bytes},
          {"capacity_bytes", capacity == 0 ? Json() : Json(capacity)},
          {"counters", counters}};
}

Json to_json(const MemoryActivity& memory) {
  return {{"names", memory.names},
          {"address", memory.address},
          {"bytes", memory.bytes},
          {"faults", memory.faults},
          {"moved_bytes", memory.moved_bytes},
          {"evicted_bytes", memory.evicted_bytes}};
}

}  // namespace

ProgramStatus at_start(const ProgramStatus& status) {
  ProgramStatus start = status;
  start.time_ns = status.start_ns;
  for (PoolStatus& pool : start.pools) pool.counters.fill(0);
  start.blocks.clear();
  return start;
}

std::vector<std::string> to_lines(const ProgramStatus& before, const ProgramStatus& now,
                                  std::size_t columns, std::size_t lines) {
  const double seconds = seconds_between(before, now);
  std::vector<std::string> text;
  text.push_back(fmt::format("{} ({}), {:.0f} s, {}policy {}, trap {}, Wherry {}", now.program,
                             now.pid, now.seconds(), now.stopped ? "STOPPED, " : "",
                             policy_text(now), now.trap, now.version));
  text.emplace_back();
  text.push_back(fmt::format(pool_head, "pool", "used", "capacity", "faults/s", "in", "out",
                             "copied", "fetched", "evicted", "mapped"));
  for (std::size_t i = 0; i < now.pools.size(); ++i)
    text.push_back(pool_line(name_of_pool(i), now.pools[i],
                             Rates(before.pools[i], now.pools[i], seconds),
                             columns >= wide_columns));
  text.emplace_back("(MiB/s; fetched: by prefetches; mapped: from other pools)");
  if (auto held = held_line(before, now, seconds)) text.push_back(std::move(*held));
  text.emplace_back();

  const std::size_t label =
      std::clamp(columns - std::min(columns, figures_bytes), label_bytes_min, label_bytes_max);
  text.push_back(fmt::format("{:<{}}{:>12}{:>12}{:>14}{:>14}", "memory", label, "size", "faults/s",
                             "moved MiB/s", "evicted MiB/s"));
  for (const MemoryActivity& memory : by_memory(now, difference(before.blocks, now.blocks)))
    text.push_back(memory_line(memory, label, seconds));
  if (now.names_left_out != 0)
    text.push_back(fmt::format("{} further names are not shown", now.names_left_out));
  if (text.size() > lines) text.resize(lines);
  for (std::string& line : text) line = first_columns(line, columns);
  return text;
}

Json to_json(const ProgramStatus& status) {
  Json pools = Json::array();
  for (std::size_t i = 0; i < status.pools.size(); ++i)
    pools.push_back(to_json(name_of_pool(i), status.pools[i]));
  Json memory = Json::array();
  for (const MemoryActivity& one : by_memory(status, status.blocks)) memory.push_back(to_json(one));
  return {{"pid", status.pid},
          {"program", status.program},
          {"state", status.stopped ? "stopped" : "running"},
          {"seconds", status.seconds()},
          {"version", status.version},
          {"trap", status.trap},
          {"policy", status.policy},
          {"policy_in_force", status.policy_in_force},
          {"pools", pools},
          {"memory", memory},
          {"names_left_out", status.names_left_out}};
}

}  // namespace wherry::tool
