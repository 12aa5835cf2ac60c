#include "cost_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/environment.h"
#include "trial_file.h"

namespace wherry::tool {
namespace {

constexpr const char* how_to_measure = "(to measure the costs: wherry calibrate)";

}  // namespace

std::string usual_cost_file() {
  const auto below = [](impl::EnvironmentName variable, const char* rest) {
    const char* const folder = impl::environment_value(variable);
    // The XDG specification says that relative paths are to be ignored.
    return folder != nullptr && folder[0] == '/' ? folder + std::string(rest) : std::string();
  };
  const std::string cached = below("XDG_CACHE_HOME", "/wherry/cost.json");
  return cached.empty() ? below("HOME", "/.cache/wherry/cost.json") : cached;
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

std::string why_not_saved(const std::string& path) {
  if (path.empty()) return "there is no home directory for the cost file: name a file with -o FILE";
  std::error_code error;
  // Create the user's cache folder if it is missing, but not a folder that the user names.
  if (path == usual_cost_file())
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (!error) error.assign(try_create_in_place_of(path), std::generic_category());
  return error ? fmt::format("cannot write {}: {}", path, error.message()) : std::string();
}

std::string save_costs(const replay::CostModel& costs, const std::string& path) {
  if (const std::string wrong = why_not_saved(path); !wrong.empty()) return wrong;
  const std::string unfinished = path + ".new";
  std::error_code error, ignored;
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << replay::to_json(costs);
    file.close();
    if (!file) error.assign(errno == 0 ? EIO : errno, std::generic_category());
  }
  if (!error) std::filesystem::rename(unfinished, path, error);
  if (!error) return {};
  std::filesystem::remove(unfinished, ignored);
  return fmt::format("cannot write {}: {}", path, error.message());
}

}  // namespace wherry::tool
