// WHERRY_POLICY: the name of a policy and its parameters.
#include <variant>

#include "fuzz/target.h"
#include "policy/policies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  const auto result = impl::choose_policy(test::text_of(data, size));
  if (const auto* wrong = std::get_if<std::string>(&result)) {
    test::require(!wrong->empty(), "an error without a reason");
    return 0;
  }
  const auto& choice = std::get<impl::PolicyChoice>(result);
  test::require(impl::make_policy(choice, impl::AccessCosts{}) != nullptr, "no policy was made");
  return 0;
}
