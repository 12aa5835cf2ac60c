#include "bench_numa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <wherry/wherry.hpp>

#include "apart.h"
#include "bench_report.h"
#include "complain.h"
#include "os/memory/numa.h"
#include "progress.h"

namespace wherry::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* all_methods[] = {"fault", "prefetch", "move_pages"};
constexpr std::size_t page_bytes = 4096;
constexpr int passes = 5;            // the result is the median
constexpr std::size_t singles = 64;  // the latency is the median of these

struct Path {
  int from;
  int to;
};
struct Result {
  double latency = 0;  // seconds for one page that moves alone
  double seconds = 0;  // seconds for all pages
};

std::size_t unit_bytes(const NumaBenchOptions& options) {
  return options.page == "2M" ? std::size_t{2} << 20 : page_bytes;
}

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// ---- the library's methods: fault and prefetch

// Managed memory whose units move between two devices, one on each node.
class Devices {
 public:
  Devices(const NumaBenchOptions& options)
      : unit_(unit_bytes(options)), data_(options.bytes), there_(device(1)), back_(device(0)) {}

  std::size_t units() const { return data_.size() / unit_; }
  stream& at(int device) { return device == 0 ? back_ : there_; }

  // Seconds that the device needed to access each of the first `count` units, one by one.
  std::vector<double> touch(int device, std::size_t count) {
    managed_array<double> seconds(count);
    at(device).parallel_for(
        1, [to = seconds.data(), from = data_.data(), count, unit = unit_](std::size_t) {
          // Makes the pages of the results resident before the first timed access.
          for (std::size_t i = 0; i < count; ++i) to[i] = 0;
          for (std::size_t i = 0; i < count; ++i) {
            const double begin = now();
            *const_cast<volatile std::byte*>(from + i * unit) = std::byte{1};
            to[i] = now() - begin;
          }
        });
    at(device).synchronize();
    return {seconds.begin(), seconds.end()};
  }

  double bring(int device, std::size_t offset, std::size_t bytes) {
    return seconds_of([&] {
      prefetch(data_.span().subspan(offset, bytes), at(device).device(), at(device));
      at(device).synchronize();
    });
  }
  std::size_t unit() const { return unit_; }
  // The node of the last unit.
  int node() const { return runtime().page_state(data_.data() + data_.size() - unit_).node; }

 private:
  std::size_t unit_;
  managed_array<std::byte> data_;
  stream there_;
  stream back_;
};

void expect_node(int is, int wanted) {
  if (is != wanted)
    throw std::runtime_error(fmt::format("the pages are on node {}, not {}", is, wanted));
}

void start_devices(const Path& path, const NumaBenchOptions& options) {
  const std::size_t capacity = (options.bytes + (std::size_t{4} << 20)) >> 20;
  ::setenv("WHERRY_DEVICES",
           fmt::format("node={},capacity={}M,workers=1;node={},capacity={}M,workers=1", path.from,
                       capacity, path.to, capacity)
               .c_str(),
           1);
  ::setenv("WHERRY_FAULT_REGION", options.page.c_str(), 1);
  ::setenv("WHERRY_HUGE_PAGES", options.page == "2M" ? "auto" : "never", 1);
  detail::check(wherrySetPolicy("migrate-always"), "wherrySetPolicy");
}

Result by_fault(const Path& path, const NumaBenchOptions& options) {
  Devices devices(options);
  std::vector<double> latencies, sums;
  for (int pass = 0; pass <= passes; ++pass) {
    devices.touch(0, devices.units());
    const std::vector<double> seconds = devices.touch(1, devices.units());
    expect_node(devices.node(), path.to);
    if (pass == 0) continue;  // the first pass uses new memory
    latencies.push_back(quantile(seconds, 0.5));
    double sum = 0;
    for (const double each : seconds) sum += each;
    sums.push_back(sum);
  }
  return {quantile(latencies, 0.5), quantile(sums, 0.5)};
}

Result by_prefetch(const Path& path, const NumaBenchOptions& options) {
  Devices devices(options);
  devices.touch(0, devices.units());
  std::vector<double> latencies, all;
  for (int pass = 0; pass <= passes; ++pass) {
    const double seconds = devices.bring(1, 0, options.bytes);
    expect_node(devices.node(), path.to);
    devices.bring(0, 0, options.bytes);
    if (pass != 0) all.push_back(seconds);
  }
  for (std::size_t i = 0; i < std::min(singles, devices.units()); ++i) {
    latencies.push_back(devices.bring(1, i * devices.unit(), devices.unit()));
    devices.bring(0, i * devices.unit(), devices.unit());
  }
  return {quantile(latencies, 0.5), quantile(all, 0.5)};
}

// ---- Linux's method: move_pages(2)

class Pages {
 public:
  Pages(const Path& path, const NumaBenchOptions& options)
      : path_(path), unit_(unit_bytes(options)), bytes_(options.bytes) {
    void* const start =
        ::mmap(nullptr, bytes_ + unit_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    start_ = reinterpret_cast<std::byte*>((address + unit_ - 1) / unit_ * unit_);
    ::madvise(start_, bytes_, unit_ == page_bytes ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    for (std::size_t at = 0; at < bytes_; at += page_bytes) start_[at] = std::byte{1};
    for (std::size_t at = 0; at < bytes_; at += unit_) units_.push_back(start_ + at);
    move(path_.from, 0, units_.size());
  }

  std::size_t units() const { return units_.size(); }
  double there(std::size_t first, std::size_t count) { return move(path_.to, first, count); }
  const void* last() const { return units_.back(); }
  void back() { move(path_.from, 0, units_.size()); }

 private:
  double move(int node, std::size_t first, std::size_t count) {
    nodes_.assign(count, node);
    states_.assign(count, 0);
    return seconds_of([&] {
      if (::move_pages(0, count, units_.data() + first, nodes_.data(), states_.data(),
                       MPOL_MF_MOVE) < 0)
        throw std::system_error(errno, std::generic_category(), "move_pages");
    });
  }

  const Path path_;
  const std::size_t unit_;
  const std::size_t bytes_;
  std::byte* start_ = nullptr;
  std::vector<void*> units_;
  std::vector<int> nodes_, states_;
};

Result by_move_pages(const Path& path, const NumaBenchOptions& options) {
  Pages pages(path, options);
  std::vector<double> latencies, all;
  for (int pass = 0; pass <= passes; ++pass) {
    const double seconds = pages.there(0, pages.units());
    expect_node(impl::node_of(pages.last()), path.to);
    pages.back();
    if (pass != 0) all.push_back(seconds);
  }
  for (std::size_t i = 0; i < std::min(singles, pages.units()); ++i)
    latencies.push_back(pages.there(i, 1));
  return {quantile(latencies, 0.5), quantile(all, 0.5)};
}

std::string measure(Result& result, const std::string& method, const Path& path,
                    const NumaBenchOptions& options) {
  return run_apart(result, [&](Result& its) {
    if (method == "move_pages") {
      its = by_move_pages(path, options);
      return;
    }
    start_devices(path, options);
    its = method == "fault" ? by_fault(path, options) : by_prefetch(path, options);
  });
}

double bytes_per_second(const Result& result, const NumaBenchOptions& options) {
  return static_cast<double>(options.bytes) / result.seconds;
}

// The rows of a path in the plot, one for each panel, without values yet.
struct PathRows {
  PlotRow bandwidth;
  PlotRow latency;

  PathRows(int source, int target, std::size_t methods)
      : bandwidth{fmt::format("node {} to {}", source, target),
                  std::vector<double>(methods, no_value)},
        latency(bandwidth) {}

  void set(std::size_t method, const Result& result, const NumaBenchOptions& options) {
    bandwidth.values[method] = bytes_per_second(result, options) / (1 << 30);
    latency.values[method] = result.latency * 1e6;
  }
};

Plot to_plot(const std::vector<PathRows>& rows, const std::vector<std::string>& methods,
             const NumaBenchOptions& options) {
  PlotPanel bandwidth{"bandwidth (GiB/s)", PlotAxis::linear, methods, {}};
  PlotPanel latency{
      fmt::format("time to move one page of {} (us)", options.page), PlotAxis::linear, methods, {}};
  for (const PathRows& row : rows) {
    bandwidth.rows.push_back(row.bandwidth);
    latency.rows.push_back(row.latency);
  }
  return {"Moving pages between NUMA nodes",
          fmt::format("{}; {} MiB in pages of {}", describe_machine(), options.bytes >> 20,
                      options.page),
          {std::move(bandwidth), std::move(latency)}};
}

// The nodes at which a path may begin or end. If there is none, prints an error line.
std::vector<int> nodes_for(std::optional<int> asked) {
  std::vector<int> nodes;
  for (const impl::NumaNode& node : impl::read_machine().nodes)
    if (node.has_memory()) nodes.push_back(node.id);
  if (!asked) return nodes;
  if (std::ranges::find(nodes, *asked) != nodes.end()) return {*asked};
  complain(fmt::format("node {} has no memory that this process may use; nodes with memory: {}",
                       *asked, fmt::join(nodes, ", ")));
  return {};
}

// Why this method cannot move pages on this path; empty if it can.
std::string reason_of_absence(const std::string& method, const Path& path) {
  if (method == "move_pages" && path.from == path.to)
    return "Linux moves no page to the node that it is on";
  return {};
}

// The rows of all paths and methods, as a table and as JSON.
class Table {
 public:
  explicit Table(const NumaBenchOptions& options)
      : options_(options),
        text_(fmt::format("{} MiB in pages of {}\n\n{:>5}{:>5}{:>10}  {:<12}{:>13}{:>12}\n",
                          options.bytes >> 20, options.page, "from", "to", "distance", "method",
                          "one page, us", "all, GiB/s")) {}

  void add(const Path& path, const std::string& method, const Result& result) {
    begin_row(path, method);
    text_ += fmt::format("{:>13.2f}{:>12.2f}\n", result.latency * 1e6,
                         bytes_per_second(result, options_) / (1 << 30));
    Json row = json_row(path, method);
    row["latency_us"] = result.latency * 1e6;
    row["bytes_per_second"] = bytes_per_second(result, options_);
    rows_.push_back(std::move(row));
  }
  void add_absent(const Path& path, const std::string& method, const std::string& reason) {
    begin_row(path, method);
    text_ += fmt::format("absent: {}\n", reason);
    Json row = json_row(path, method);
    row["reason"] = reason;
    absent_.push_back(std::move(row));
  }

  // `one_node`: adds that the figures do not show the speed of another node's memory.
  int print(bool one_node) const {
    if (options_.json)
      return print_out(Json{{"machine", describe_machine()},
                            {"bytes", options_.bytes},
                            {"page", options_.page},
                            {"rows", rows_},
                            {"absent", absent_}}
                           .dump(2) +
                       "\n");
    constexpr std::string_view remark =
        "\nThis process may use one node only. Pages moved between two pools of that node: the "
        "figures\nshow the work of Linux and of the library, and not the speed of another node's "
        "memory.\n";
    return print_out(one_node ? text_ + std::string(remark) : text_);
  }

 private:
  void begin_row(const Path& path, const std::string& method) {
    text_ += fmt::format("{:>5}{:>5}{:>10}  {:<12}", path.from, path.to,
                         impl::node_distance(path.from, path.to), method);
  }
  static Json json_row(const Path& path, const std::string& method) {
    return {{"from", path.from},
            {"to", path.to},
            {"distance", impl::node_distance(path.from, path.to)},
            {"method", method}};
  }

  const NumaBenchOptions& options_;
  std::string text_;
  Json rows_ = Json::array();
  Json absent_ = Json::array();
};

}  // namespace

double move_pages_seconds(int from, int to, std::uint64_t bytes) {
  NumaBenchOptions options;
  options.bytes = bytes;
  options.page = "2M";
  return by_move_pages({from, to}, options).seconds;
}

int run_bench_numa(const NumaBenchOptions& options) {
  const std::vector<int> from = nodes_for(options.from);
  const std::vector<int> to = from.empty() ? from : nodes_for(options.to);
  if (to.empty()) return exit_failed;
  std::vector<std::string> methods = options.methods;
  if (methods.empty()) methods.assign(std::begin(all_methods), std::end(all_methods));

  Table table(options);
  std::vector<PathRows> plotted;
  Progress progress;
  std::size_t step = 0;
  for (const int source : from)
    for (const int target : to) {
      const Path path{source, target};
      plotted.emplace_back(source, target, methods.size());
      for (std::size_t i = 0; i < methods.size(); ++i) {
        const std::string& method = methods[i];
        ++step;
        if (const std::string reason = reason_of_absence(method, path); !reason.empty()) {
          table.add_absent(path, method, reason);
          continue;
        }
        progress.enter_step(step, from.size() * to.size() * methods.size());
        progress.show(fmt::format("{} from node {} to node {}", method, source, target));
        Result result;
        const std::string wrong = measure(result, method, path, options);
        if (!wrong.empty())
          return complain(
              fmt::format("{} from node {} to node {}: {}", method, source, target, wrong));
        table.add(path, method, result);
        plotted.back().set(i, result, options);
      }
    }
  const int printed = table.print(nodes_for({}).size() == 1);
  return save_plot(to_plot(plotted, methods, options), options.svg) ? printed : exit_failed;
}

}  // namespace wherry::tool
