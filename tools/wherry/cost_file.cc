#include "cost_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/cache_file.h"

namespace wherry::tool {
namespace {

constexpr const char* how_to_measure = "(to measure the costs: wherry calibrate)";

}  // namespace

std::string usual_cost_file() {
  return impl::cache_file("cost.json");
}

bool exists(const std::string& cost_file) {
  std::error_code error;
  return !cost_file.empty() && std::filesystem::exists(cost_file, error);
}

std::variant<replay::CostModel, std::string> load_costs(const std::string& path) {
  if (path.empty())
    return fmt::format(
        "there is no home directory with a cost file: name a file with --cost FILE {}",
        how_to_measure);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fmt::format("cannot read the costs in {}: {} {}", path, std::strerror(errno),
                       how_to_measure);
  std::ostringstream text;
  text << file.rdbuf();
  auto parsed = replay::parse_cost_model(text.str());
  if (const auto* wrong = std::get_if<std::string>(&parsed))
    return fmt::format("{}: {} {}", path, *wrong, how_to_measure);
  return parsed;
}

}  // namespace wherry::tool
