#include "machine/node_speeds.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "base/cache_file.h"
#include "os/files/small_file.h"

namespace wherry::impl {
namespace {

constexpr std::string_view header = "wherry node speeds 1";
constexpr std::size_t file_bytes_max = std::size_t{64} << 10;

}  // namespace

std::optional<double> NodeSpeeds::of(int cpus, int memory) const {
  const auto found = speeds_.find({cpus, memory});
  if (found == speeds_.end()) return std::nullopt;
  return found->second;
}

std::string shape_of(const Machine& machine) {
  std::string shape;
  for (const NumaNode& node : machine.nodes)
    shape += fmt::format("{}node {}: {} GiB", shape.empty() ? "" : ", ", node.id,
                         node.total_bytes >> 30);
  return shape;
}

std::string to_text(const NodeSpeeds& speeds, const std::string& shape) {
  std::string text =
      fmt::format("{}\n{}\n# CPUs of node, memory of node, bytes a second\n", header, shape);
  for (const auto& [nodes, speed] : speeds.all())
    text += fmt::format("{} {} {:.0f}\n", nodes.first, nodes.second, speed);
  return text;
}

std::variant<NodeSpeeds, std::string> parse_node_speeds(std::string_view text,
                                                        const std::string& shape) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != header)
    return fmt::format("line 1 is not '{}'", header);
  if (!std::getline(lines, line) || line != shape)
    return fmt::format("it is of another machine ({}; here: {})", line, shape);
  NodeSpeeds speeds;
  for (int number = 3; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    int cpus = -1, memory = -1;
    double speed = 0;
    std::string more;
    if (!(words >> cpus >> memory >> speed) || words >> more || cpus < 0 || memory < 0 ||
        !std::isfinite(speed) || speed < 1)
      return fmt::format("line {} is not two nodes and a speed", number);
    speeds.set(cpus, memory, speed);
  }
  if (speeds.empty()) return "it has no speeds";
  return speeds;
}

std::string node_speeds_file() {
  return cache_file("nodes");
}

KeptSpeeds read_node_speeds() {
  const std::string path = node_speeds_file();
  constexpr const char* unused = "Linux's distances are used; to measure: wherry calibrate";
  if (path.empty()) return {{}, fmt::format("no cache folder: {}", unused)};
  std::string text;
  if (const int error = read_small_file(path, file_bytes_max, text); error == ENOENT)
    return {{}, fmt::format("not measured: {}", unused)};
  else if (error != 0)
    return {{}, fmt::format("{}: {}: {}", path, std::strerror(error), unused)};
  auto parsed = parse_node_speeds(text, shape_of(read_machine()));
  if (const auto* wrong = std::get_if<std::string>(&parsed))
    return {{}, fmt::format("{}: {}: {}", path, *wrong, unused)};
  return {std::get<NodeSpeeds>(std::move(parsed)), fmt::format("measured: {}", path)};
}

}  // namespace wherry::impl
