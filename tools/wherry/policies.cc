#include "policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <wherry/wherry.hpp>

#include "complain.h"
#include "policy/policies.h"

namespace wherry::tool {
namespace {

nlohmann::ordered_json to_json(const impl::PolicyDescription& policy) {
  nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
  for (const impl::PolicyParameter& parameter : policy.parameters)
    parameters.push_back({{"name", parameter.name},
                          {"default", parameter.usual},
                          {"min", parameter.least},
                          {"max", parameter.most},
                          {"meaning", parameter.meaning}});
  return {{"name", policy.name}, {"meaning", policy.meaning}, {"parameters", parameters}};
}

std::string to_text(const impl::PolicyDescription& policy) {
  std::string text = fmt::format("{}\n  {}\n", policy.name, policy.meaning);
  for (const impl::PolicyParameter& parameter : policy.parameters)
    text += fmt::format("  {:<24} {:>5}  {}..{}  {}\n", parameter.name, parameter.usual,
                        parameter.least, parameter.most, parameter.meaning);
  return text;
}

}  // namespace

int run_policies(bool json) {
  const auto policies = impl::built_in_policies();
  if (json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const impl::PolicyDescription& policy : policies) all.push_back(to_json(policy));
    return print_out(all.dump(2) + "\n");
  }
  std::string text = fmt::format(
      "{} (default)\n  adaptive where memory differs in speed, else uvm (see: wherry info)\n",
      impl::automatic_policy);
  for (const impl::PolicyDescription& policy : policies) text += to_text(policy);
  return print_out(text +
                   "Choose one with WHERRY_POLICY=NAME[,PARAMETER=NUMBER...], or with the option "
                   "--policy of a command.\n");
}

std::string why_no_policy(const std::string& text) {
  if (text.find('/') != std::string::npos) return {};  // a shared object
  const auto choice = impl::choose_policy(text);
  const auto* wrong = std::get_if<std::string>(&choice);
  return wrong == nullptr ? std::string() : *wrong;
}

std::vector<std::string> policies_in(const std::string& list) {
  std::vector<std::string> policies;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    if (policies.empty() || part.find('=') == std::string::npos)
      policies.push_back(part);
    else
      policies.back() += "," + part;
    if (part.find('/') != std::string::npos) {
      policies.back() = list.substr(begin);
      break;
    }
    begin = end + 1;
  }
  return policies;
}

void add_policy(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--policy",
          [](const std::string& text) { detail::check(wherrySetPolicy(text.c_str()), "--policy"); },
          "The policy that decides where pages go (see: wherry policies); overrides WHERRY_POLICY")
      ->type_name("NAME[,PARAMETER=NUMBER...]")
      ->check(CLI::Validator([](std::string& text) { return why_no_policy(text); }, ""));
}

}  // namespace wherry::tool
