#include "machine/policy_source.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>

#include "base/lock.h"
#include "base/log.h"
#include "machine/own_policy.h"
#include "policy/policies.h"

namespace wherry::impl {
namespace {

constinit Mutex own_lock{LockOrder::policies};
std::map<std::string, wherry::make_policy*, std::less<>>& own_policies() REQUIRES(own_lock) {
  static auto& policies = *new std::map<std::string, wherry::make_policy*, std::less<>>;
  return policies;
}

PolicySource source_of(wherry::make_policy* make, std::string parameters) {
  return [make, parameters](const PolicyMachine& machine) -> std::unique_ptr<const Policy> {
    std::unique_ptr<wherry::policy> theirs;
    try {
      theirs.reset(make(&machine.nodes, parameters.c_str()));
    } catch (const std::exception& failure) {
      log_line("the policy: {}", failure.what());
    } catch (...) {
    }
    return theirs ? std::make_unique<OwnPolicy>(std::move(theirs)) : nullptr;
  };
}

std::variant<PolicySource, std::string> load_policy(const std::string& path,
                                                    std::string_view parameters) {
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return fmt::format("cannot load a policy: {}", ::dlerror());
  const auto* const version = static_cast<const unsigned*>(::dlsym(object, "wherryPolicyVersion"));
  const auto make = reinterpret_cast<wherry::make_policy*>(::dlsym(object, "wherryMakePolicy"));
  std::string wrong;
  if (version == nullptr || make == nullptr)
    wrong = fmt::format("{} has no policy: it has to say WHERRY_POLICY_PLUGIN(CLASS)", path);
  else if (*version != wherry::policy_version)
    wrong = fmt::format("{} is for version {} of the interface of policies, and this is {}", path,
                        *version, wherry::policy_version);
  if (wrong.empty()) return source_of(make, std::string(parameters));
  ::dlclose(object);
  return wrong;
}

}  // namespace

PolicyRefusal register_policy(const char* name, unsigned version, wherry::make_policy* make) {
  if (name == nullptr || make == nullptr) return PolicyRefusal::null_argument;
  const std::string_view text(name);
  if (text.empty() || text.find_first_of(",/") != std::string_view::npos)
    return PolicyRefusal::bad_name;
  if (version != wherry::policy_version) return PolicyRefusal::other_version;
  if (text == automatic_policy) return PolicyRefusal::name_taken;
  for (const PolicyDescription& policy : built_in_policies())
    if (text == policy.name) return PolicyRefusal::name_taken;
  const LockGuard guard(own_lock);
  return own_policies().emplace(text, make).second ? PolicyRefusal::none
                                                   : PolicyRefusal::name_taken;
}

std::string name_in_force(const std::string& name, const AccessCosts& access_costs) {
  const std::string_view without_parameters = std::string_view(name).substr(0, name.find(','));
  return name.empty() || without_parameters == automatic_policy
             ? std::string(policy_for(access_costs))
             : name;
}

std::variant<PolicySource, std::string> find_policy(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(','));
  const std::string_view parameters = text.substr(std::min(name.size() + 1, text.size()));
  if (name.find('/') != std::string_view::npos) return load_policy(std::string(name), parameters);
  {
    const LockGuard guard(own_lock);
    const auto& policies = own_policies();
    if (const auto found = policies.find(name); found != policies.end())
      return source_of(found->second, std::string(parameters));
  }
  auto choice = choose_policy(text);
  if (auto* wrong = std::get_if<std::string>(&choice)) return std::move(*wrong);
  return [built_in = std::get<PolicyChoice>(std::move(choice))](const PolicyMachine& machine) {
    return make_policy(built_in, machine.access_costs);
  };
}

}  // namespace wherry::impl
