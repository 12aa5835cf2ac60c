// Policies by name, and the fixed policies.
#include "policy/policies.h"

#include "policy/advice_rules.h"
#include "support/catch.h"

namespace wherry::test::policies_test {
namespace {

using impl::BlockHistory;
using impl::choose_policy;
using impl::FaultFacts;
using impl::PolicyChoice;
using impl::Processor;

PolicyChoice chosen(std::string_view text) {
  const auto choice = choose_policy(text);
  const auto* wrong = std::get_if<std::string>(&choice);
  INFO((wrong != nullptr ? *wrong : "chosen"));
  REQUIRE(wrong == nullptr);
  return std::get<PolicyChoice>(choice);
}
std::string refused(std::string_view text) {
  const auto choice = choose_policy(text);
  REQUIRE(std::holds_alternative<std::string>(choice));
  return std::get<std::string>(choice);
}

// The destination of a page with these facts under the policy.
Processor destination(std::string_view policy, const FaultFacts& facts) {
  const auto made = make_policy(chosen(policy), {});
  std::unique_ptr<BlockHistory> history;
  return impl::AdviceRules(16).decide(facts, made->on_fault(facts, history)).destination;
}
FaultFacts touch_by(Processor faulting_processor, impl::ProcessorMask residents) {
  FaultFacts facts;
  facts.faulting_processor = faulting_processor;
  facts.table = facts.faulting_processor;
  facts.page = 3;
  facts.residents = residents;
  facts.stretch = {0, 512};
  return facts;
}

constexpr Processor host = Processor::host();
constexpr Processor device0 = Processor::device(0);
constexpr Processor device1 = Processor::device(1);

TEST_CASE("auto is the driver's policy where all memory is alike, else the adaptive one") {
  CHECK(chosen("auto").name == "auto");
  CHECK(refused("auto,far_percent=3").find("no policy 'auto'") == std::string::npos);
  impl::AccessCosts access_costs;
  CHECK(impl::policy_for(access_costs) == "uvm");
  for (auto& costs : access_costs.percent) costs.fill(100);
  CHECK(impl::policy_for(access_costs) == "uvm");
  access_costs.percent[1][0] = 210;
  CHECK(impl::policy_for(access_costs) == "adaptive");
  CHECK(make_policy(chosen("auto"), access_costs) != nullptr);
}

TEST_CASE("every policy is found by its name, and the default one without a name") {
  CHECK(chosen("").name == impl::automatic_policy);
  for (const auto& policy : impl::built_in_policies()) {
    CHECK(chosen(policy.name).name == policy.name);
    CHECK(make_policy(chosen(policy.name), {}) != nullptr);
  }
}

TEST_CASE("parameters are numbers within their limits, and so are their defaults") {
  for (const auto& policy : impl::built_in_policies()) {
    for (const auto& parameter : policy.parameters) {
      INFO(policy.name << " " << parameter.name);
      CHECK(parameter.usual >= parameter.least);
      CHECK(parameter.usual <= parameter.most);
      const std::string head = std::string(policy.name) + "," + parameter.name + "=";
      CHECK(chosen(head + std::to_string(parameter.most)).values.at(parameter.name) ==
            parameter.most);
      CHECK(refused(head + std::to_string(parameter.most + 1)).find(parameter.name) !=
            std::string::npos);
      if (parameter.least > 0) refused(head + std::to_string(parameter.least - 1));
    }
  }
  const PolicyChoice two = chosen("uvm,thrashing_nap=2,prefetch_threshold=75");
  CHECK(two.values.size() == 2);
  CHECK(two.values.at("prefetch_threshold") == 75);
}

TEST_CASE("an invalid policy, parameter or number is refused with the valid ones") {
  CHECK(refused("uvn").find("first-touch") != std::string::npos);
  CHECK(refused("uvm,thrashing_naps=2").find("thrashing_nap,") != std::string::npos);
  CHECK(refused("first-touch,nap=2") == "'nap=2': first-touch has no parameters");
  for (const char* text :
       {"uvm,thrashing_nap", "uvm,thrashing_nap=", "uvm,thrashing_nap=two", "uvm,thrashing_nap=-1",
        "uvm,thrashing_nap=1x", "uvm,", ",", "uvm,thrashing_nap=99999999999999999999"}) {
    INFO(text);
    if (std::string_view(text) == "uvm,")
      chosen(text);  // no exception
    else
      refused(text);
  }
}

TEST_CASE("the fixed policies send a page where their names say") {
  const auto nowhere = touch_by(device1, 0);
  const auto at_device0 = touch_by(device1, device0.bit());
  const auto back_home = touch_by(host, device0.bit());
  CHECK(destination("migrate-always", nowhere) == device1);
  CHECK(destination("migrate-always", at_device0) == device1);
  CHECK(destination("migrate-always", back_home) == host);
  CHECK(destination("first-touch", nowhere) == device1);
  CHECK(destination("first-touch", at_device0) == device0);
  CHECK(destination("first-touch", back_home) == device0);
  CHECK(destination("remote-always", nowhere) == host);
  CHECK(destination("remote-always", at_device0) == device0);
  CHECK(destination("remote-always", touch_by(device1, host.bit())) == host);
}

TEST_CASE("advice takes precedence over every policy") {
  const std::string_view name = GENERATE("first-touch", "remote-always", "uvm", "adaptive");
  auto facts = touch_by(device1, device0.bit());
  facts.preferred = device1;
  CHECK(destination(name, facts) == device1);
  facts = touch_by(device1, 0);
  facts.preferred = device0;
  CHECK(destination(name, facts) == device0);
  facts = touch_by(device1, device0.bit());
  facts.accessed_by = device1.bit();
  CHECK(destination(name, facts) == device0);
}

}  // namespace
}  // namespace wherry::test::policies_test
