#include "replay/cost_model.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace wherry::replay {
namespace {

using Json = nlohmann::ordered_json;

constexpr int format_version = 1;

struct OperationField {
  const char* name;
  OperationCost CostModel::*where;
};
constexpr OperationField operations[] = {
    {"populate_host", &CostModel::populate_host},
    {"populate_device", &CostModel::populate_device},
    {"migrate_to_host", &CostModel::migrate_to_host},
    {"migrate_to_device", &CostModel::migrate_to_device},
    {"duplicate", &CostModel::duplicate},
    {"remote_map", &CostModel::remote_map},
};

struct NumberField {
  const char* name;
  double CostModel::*where;
};
constexpr NumberField numbers[] = {
    {"minor_ns", &CostModel::minor_ns},
    {"collapse_ns", &CostModel::collapse_ns},
    {"evict_page_ns", &CostModel::evict_page_ns},
    {"prefetch_page_ns", &CostModel::prefetch_page_ns},
    {"round_trip_host_ns", &CostModel::round_trip_host_ns},
    {"round_trip_device_ns", &CostModel::round_trip_device_ns},
    {"read_local_page_ns", &CostModel::read_local_page_ns},
    {"read_remote_page_ns", &CostModel::read_remote_page_ns},
};

// Reads a number from an object. Returns an error text, or an empty string.
std::string take(const Json& object, const std::string& prefix, const char* name, double& number) {
  const std::string path = prefix + name;
  const auto found = object.find(name);
  if (found == object.end()) return fmt::format("'{}' is missing", path);
  if (!found->is_number()) return fmt::format("'{}' is not a number", path);
  number = found->get<double>();
  if (!std::isfinite(number) || number < 0)
    return fmt::format("'{}' is {}, and must be finite and not negative", path, number);
  return {};
}

std::string take(const Json& object, CostModel& model) {
  if (!object.is_object() || !object.contains("version")) return "it is not a cost file";
  if (object["version"] != format_version)
    return fmt::format("its version is {}, and this program reads version {}",
                       object["version"].dump(), format_version);
  for (const auto& [name, where] : operations) {
    const auto found = object.find(name);
    if (found == object.end()) return fmt::format("'{}' is missing", name);
    if (!found->is_object()) return fmt::format("'{}' is not an object", name);
    const std::string prefix = std::string(name) + ".";
    std::string wrong = take(*found, prefix, "fixed_ns", (model.*where).fixed_ns);
    if (wrong.empty()) wrong = take(*found, prefix, "page_ns", (model.*where).page_ns);
    if (!wrong.empty()) return wrong;
  }
  for (const auto& [name, where] : numbers)
    if (std::string wrong = take(object, "", name, model.*where); !wrong.empty()) return wrong;
  if (const auto machine = object.find("machine"); machine != object.end() && machine->is_string())
    model.machine = machine->get<std::string>();
  return {};
}

}  // namespace

OperationCost fit(std::span<const CostSample> samples) {
  // Minimizes the squares of (fixed + page * n) / ns - 1.
  double ones = 0, pages = 0, squares = 0, sum = 0, weighted = 0;
  for (const auto& [n, ns] : samples) {
    const double weight = 1 / (ns * ns);
    ones += weight;
    pages += weight * n;
    squares += weight * n * n;
    sum += weight * ns;
    weighted += weight * ns * n;
  }
  const double determinant = ones * squares - pages * pages;
  OperationCost cost;
  if (determinant > 0) {
    cost.page_ns = (ones * weighted - pages * sum) / determinant;
    cost.fixed_ns = (squares * sum - pages * weighted) / determinant;
  }
  // A negative cost is set to 0.
  if (cost.fixed_ns < 0) cost = {0, squares > 0 ? weighted / squares : 0};
  if (cost.page_ns < 0) cost = {ones > 0 ? sum / ones : 0, 0};
  return cost;
}

std::string to_json(const CostModel& model) {
  Json object{{"version", format_version}, {"machine", model.machine}};
  for (const auto& [name, where] : operations)
    object[name] = {{"fixed_ns", (model.*where).fixed_ns}, {"page_ns", (model.*where).page_ns}};
  for (const auto& [name, where] : numbers) object[name] = model.*where;
  return object.dump(2) + "\n";
}

std::variant<CostModel, std::string> parse_cost_model(std::string_view json) {
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return "it is not JSON";
  CostModel model;
  if (std::string wrong = take(object, model); !wrong.empty()) return wrong;
  return model;
}

}  // namespace wherry::replay
