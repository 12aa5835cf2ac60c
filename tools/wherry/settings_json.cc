#include "settings_json.h"

#include <algorithm>

namespace wherry::tool {

using Json = nlohmann::ordered_json;

Json settings_json(const TraceAbout& trace) {
  if (!trace.settings) return nullptr;
  const impl::TraceSettings& settings = *trace.settings;
  Json environment = Json::object();
  for (const std::string& line : settings.environment) {
    const std::size_t end = std::min(line.find('='), line.size());
    environment[line.substr(0, end)] = line.substr(std::min(end + 1, line.size()));
  }
  return {{"policy", settings.policy},   {"policy_in_force", settings.policy_in_force},
          {"version", settings.version}, {"kernel", settings.kernel},
          {"cpu", settings.cpu},         {"cpus", settings.cpus},
          {"nodes", settings.nodes},     {"environment", environment}};
}

}  // namespace wherry::tool
