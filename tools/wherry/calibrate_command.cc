#include "calibrate_command.h"

#include <fmt/core.h>

#include "calibration.h"
#include "complain.h"
#include "cost_file.h"
#include "kept_file.h"
#include "node_bandwidth.h"
#include "progress.h"

namespace wherry::tool {
namespace {

std::string as_text(const replay::CostModel& costs) {
  std::string text =
      fmt::format("{}\n\n{:<26}{:>10}{:>12}\n", costs.machine, "", "us", "+ us a page");
  const auto operation = [&](const char* name, const replay::OperationCost& cost) {
    text +=
        fmt::format("{:<26}{:>10.2f}{:>12.3f}\n", name, cost.fixed_ns / 1e3, cost.page_ns / 1e3);
  };
  const auto number = [&](const char* name, double ns) {
    text += fmt::format("{:<26}{:>10.2f}\n", name, ns / 1e3);
  };
  operation("first touch, host", costs.populate_host);
  operation("first touch, device", costs.populate_device);
  operation("to the host", costs.migrate_to_host);
  operation("to a device", costs.migrate_to_device);
  operation("a copy", costs.duplicate);
  operation("a remote mapping", costs.remote_map);
  number("an entry alone", costs.minor_ns);
  number("a write that ends copies", costs.collapse_ns);
  number("eviction, a page", costs.evict_page_ns);
  number("prefetch, a page", costs.prefetch_page_ns);
  number("around a fault, host", costs.round_trip_host_ns);
  number("around a fault, device", costs.round_trip_device_ns);
  number("reading a page, own", costs.read_local_page_ns);
  number("reading a page, remote", costs.read_remote_page_ns);
  return text;
}

std::string as_text(const impl::NodeSpeeds& speeds) {
  std::string text = fmt::format("\n{:<26}{:>10}{:>12}\n", "CPUs of node", "memory of", "GB/s");
  for (const auto& [nodes, speed] : speeds.all())
    text += fmt::format("{:<26}{:>10}{:>12.1f}\n", nodes.first, nodes.second, speed / 1e9);
  return text;
}

// If several nodes have memory, measures their speeds and keeps them. `text`: gets what to print.
// Returns an empty string, or one line with the error.
std::string keep_node_speeds(std::string& text) {
  const impl::Machine machine = impl::read_machine();
  if (std::ranges::count_if(machine.nodes, &impl::NumaNode::has_memory) < 2) return {};
  const std::string path = impl::node_speeds_file();
  if (path.empty()) return "there is no home directory for the speeds of the nodes: set HOME";
  Progress progress;
  progress.show("how fast the memory of each node is");
  const auto measured = measure_node_speeds(machine);
  if (const auto* wrong = std::get_if<std::string>(&measured)) return *wrong;
  const auto& speeds = std::get<impl::NodeSpeeds>(measured);
  text = as_text(speeds) + fmt::format("\nWritten to {}.\n", path);
  return save_kept(impl::to_text(speeds, impl::shape_of(machine)), path);
}

}  // namespace

CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& options) {
  CLI::App* calibrate = app.add_subcommand("calibrate",
                                           "Measure what faults cost on this machine, for wherry "
                                           "replay, and how fast the memory of each "
                                           "node is, for the policy adaptive");
  calibrate
      ->add_option("-o,--output", options.file,
                   "The cost file; ~/.cache/wherry/cost.json by default")
      ->type_name("FILE");
  calibrate->add_flag("--json", options.json, "Print the contents of the cost file");
  return calibrate;
}

int run_calibrate(const CalibrateOptions& options) {
  const std::string path = options.file.empty() ? usual_cost_file() : options.file;
  // Checked before measuring, which takes a while.
  if (const std::string wrong = why_not_saved(path); !wrong.empty()) {
    complain(wrong);
    return exit_usage;
  }
  const auto measured = calibrate();
  if (const auto* wrong = std::get_if<std::string>(&measured)) return complain(*wrong);
  const auto& costs = std::get<replay::CostModel>(measured);
  if (const std::string wrong = save_kept(replay::to_json(costs), path); !wrong.empty())
    return complain(wrong);
  std::string speeds;
  if (const std::string wrong = keep_node_speeds(speeds); !wrong.empty()) return complain(wrong);
  return print_out(options.json
                       ? replay::to_json(costs)
                       : as_text(costs) + fmt::format("\nWritten to {}.\n", path) + speeds);
}

}  // namespace wherry::tool
