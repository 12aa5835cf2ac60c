#include "import/processor_rules.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <map>
#include <utility>

#include "text_lines.h"

namespace wherry::importing {
namespace {

// The number of the first rule for the thread; rules.size() if there is none.
std::size_t rule_of(std::uint32_t thread, const std::string& name,
                    const std::vector<ProcessorRule>& rules) {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
  };
  std::size_t rule = 0;
  while (rule < rules.size() && !matches(rules[rule].thread, std::to_string(thread)) &&
         !matches(rules[rule].thread, name))
    ++rule;
  return rule;
}

}  // namespace

std::optional<int> processor_of(std::string_view text) {
  if (text == "host") return 0;
  const bool is_device = text.starts_with("dev");
  const auto number = tool::to_integer(is_device ? text.substr(3) : text);
  if (!number || *number >= static_cast<std::uint64_t>(impl::max_processors - (is_device ? 1 : 0)))
    return std::nullopt;
  return static_cast<int>(*number) + (is_device ? 1 : 0);
}

std::variant<ProcessorRule, std::string> parse_rule(const std::string& text) {
  const std::size_t sign = text.rfind('=');
  if (sign == std::string::npos || sign == 0)
    return fmt::format("{} is not THREAD=PROCESSOR", tool::quote(text));
  const auto processor = processor_of(std::string_view(text).substr(sign + 1));
  if (!processor)
    return fmt::format("{} names no processor: host, dev0 ... dev{}", tool::quote(text),
                       impl::max_devices - 1);
  return ProcessorRule{text.substr(0, sign), *processor};
}

std::vector<std::uint64_t> assign(Accesses& accesses, const std::vector<ProcessorRule>& rules) {
  std::vector<std::uint64_t> uses(rules.size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> known;
  for (Access& access : accesses.all) {
    const auto [found, is_new] = known.try_emplace({access.thread, access.name}, 0);
    if (is_new) found->second = rule_of(access.thread, accesses.names[access.name], rules);
    const std::size_t rule = found->second;
    if (rule < rules.size()) {
      access.processor = static_cast<std::int8_t>(rules[rule].processor);
      ++uses[rule];
    } else if (access.processor == Access::unknown_processor) {
      access.processor = 0;
    }
  }
  return uses;
}

}  // namespace wherry::importing
