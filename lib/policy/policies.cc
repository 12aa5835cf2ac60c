#include "policy/policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "policy/adaptive_policy.h"
#include "policy/fixed_policies.h"
#include "policy/uvm_policy.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t second_us = 1'000'000;

// Names, defaults and limits are those of NVIDIA's driver; the names omit "uvm_perf_".
constexpr PolicyParameter uvm_parameters[] = {
    {"thrashing_enable", 1, 0, 1, "whether pages that thrash are throttled and pinned"},
    {"thrashing_threshold", 3, 1, 7,
     "consecutive moves, after the first, after which a page thrashes"},
    {"thrashing_pin_threshold", 10, 1, 255,
     "throttlings of a page after which it is pinned temporarily"},
    {"thrashing_lapse_usec", 500, 1, second_us,
     "one lapse: longest time between two consecutive moves, in us"},
    {"thrashing_nap", 1, 1, 100, "length of a throttling period, in lapses"},
    {"thrashing_epoch", 2000, 1, second_us,
     "lapses without thrashing after which a block's history is reset"},
    {"thrashing_pin", 300, 0, second_us, "length of a temporary pin, in lapses; 0: unlimited"},
    {"thrashing_max_resets", 4, 0, 1000, "how often a block's history is reset, at most"},
    {"prefetch_enable", 1, 0, 1, "whether neighbours come along with a faulting page"},
    {"prefetch_threshold", 51, 1, 100,
     "all of a part of a block comes if it is denser than this, in percent"},
};

constexpr PolicyParameter adaptive_parameters[] = {
    {"far_percent", 0, 0, 10'000,
     "cost of an access to another processor's memory, in percent of one to the own memory; "
     "0: from Linux's NUMA distances"},
    {"stay_costs", 100, 1, 100'000,
     "how long a page stays after a move did not pay, in multiples of the move's cost; "
     "doubles each time"},
    {"prefetch_enable", 1, 0, 1,
     "whether dense neighbours come along with a page, or are mapped with it"},
    {"prefetch_threshold", 51, 1, 100,
     "all of a part of a block comes if it is denser than this, in percent"},
};

constexpr PolicyDescription descriptions[] = {
    {"migrate-always",
     "a page migrates to the processor that faults on it, with its region (WHERRY_FAULT_REGION)",
     false,
     {}},
    {"first-touch",
     "a page stays where it was first accessed, and other processors map it there",
     true,
     {}},
    {"remote-always", "a page is created in the host's memory, and devices map it there", true, {}},
    {"uvm", "thrashing detection and density prefetch as in NVIDIA's driver", false,
     uvm_parameters},
    {"adaptive",
     "a page moves where that pays, judged by the measured cost of faults and by how long pages "
     "stayed before; else it is mapped where it is",
     true, adaptive_parameters},
};

std::uint64_t value_of(const PolicyChoice& choice, std::span<const PolicyParameter> parameters,
                       std::string_view name) {
  const auto given = choice.values.find(std::string(name));
  if (given != choice.values.end()) return given->second;
  return std::ranges::find(parameters, name,
                           [](const auto& row) { return std::string_view(row.name); })
      ->usual;
}

UvmParameters uvm_parameters_of(const PolicyChoice& choice) {
  const auto value = [&](const char* name) { return value_of(choice, uvm_parameters, name); };
  const std::uint64_t lapse_ns = value("thrashing_lapse_usec") * 1000;
  UvmParameters parameters;
  parameters.detects_thrashing = value("thrashing_enable") != 0;
  parameters.thrashing.threshold = static_cast<unsigned>(value("thrashing_threshold"));
  parameters.thrashing.pin_threshold = static_cast<unsigned>(value("thrashing_pin_threshold"));
  parameters.thrashing.lapse_ns = lapse_ns;
  parameters.thrashing.nap_ns = value("thrashing_nap") * lapse_ns;
  parameters.thrashing.epoch_ns = value("thrashing_epoch") * lapse_ns;
  parameters.thrashing.pin_ns = value("thrashing_pin") * lapse_ns;
  parameters.thrashing.resets_max = static_cast<unsigned>(value("thrashing_max_resets"));
  parameters.prefetches = value("prefetch_enable") != 0;
  parameters.tree.threshold_percent = static_cast<unsigned>(value("prefetch_threshold"));
  return parameters;
}

AdaptiveParameters adaptive_parameters_of(const PolicyChoice& choice) {
  const auto value = [&](const char* name) {
    return static_cast<unsigned>(value_of(choice, adaptive_parameters, name));
  };
  return {value("far_percent"),
          value("stay_costs"),
          value("prefetch_enable") != 0,
          {value("prefetch_threshold")}};
}

std::string names_of(const auto& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Removes the text up to the next comma, and returns it.
std::string_view take_word(std::string_view& text) {
  const auto end = std::min(text.find(','), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::span<const PolicyDescription> built_in_policies() {
  return descriptions;
}

std::string_view policy_for(const AccessCosts& access_costs) {
  for (const auto& costs : access_costs.percent)
    if (std::ranges::any_of(costs, [](unsigned percent) { return percent > 100; }))
      return "adaptive";
  return "uvm";
}

std::variant<PolicyChoice, std::string> choose_policy(std::string_view text) {
  PolicyChoice choice{std::string(automatic_policy), {}};
  if (text.empty()) return choice;
  const std::string_view name = take_word(text);
  if (name == automatic_policy) {
    if (!text.empty()) return fmt::format("'{}': {} has no parameters", text, automatic_policy);
    return choice;
  }
  const auto* const found = std::ranges::find(
      descriptions, name, [](const auto& row) { return std::string_view(row.name); });
  if (found == std::end(descriptions))
    return fmt::format("there is no policy '{}'; the policies are: {}, {}", name, automatic_policy,
                       names_of(descriptions));
  choice.name = name;
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    const std::string_view key = word.substr(0, word.find('='));
    const auto parameter = std::ranges::find(
        found->parameters, key, [](const auto& row) { return std::string_view(row.name); });
    if (parameter == found->parameters.end())
      return found->parameters.empty()
                 ? fmt::format("'{}': {} has no parameters", word, name)
                 : fmt::format("{} has no parameter '{}'; its parameters are: {}", name, key,
                               names_of(found->parameters));
    const auto number =
        key.size() < word.size() ? number_in(word.substr(key.size() + 1)) : std::nullopt;
    if (!number || *number < parameter->least || *number > parameter->most)
      return fmt::format("'{}': {} must be a number from {} to {}", word, key, parameter->least,
                         parameter->most);
    choice.values[std::string(key)] = *number;
  }
  return choice;
}

std::unique_ptr<const Policy> make_policy(const PolicyChoice& choice,
                                          const AccessCosts& access_costs) {
  if (choice.name == automatic_policy)
    return make_policy({std::string(policy_for(access_costs)), {}}, access_costs);
  if (choice.name == "first-touch") return std::make_unique<FirstTouch>();
  if (choice.name == "remote-always") return std::make_unique<RemoteAlways>();
  if (choice.name == "uvm")
    return std::make_unique<UvmPolicy>(uvm_parameters_of(choice), access_costs);
  if (choice.name == "adaptive")
    return std::make_unique<AdaptivePolicy>(adaptive_parameters_of(choice), access_costs);
  return std::make_unique<MigrateAlways>();
}

}  // namespace wherry::impl
