// Cost models, as `wherry replay --cost FILE` reads them.
#include <variant>

#include "fuzz/target.h"
#include "replay/cost_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace wherry;
  const auto result = replay::parse_cost_model(test::text_of(data, size));
  if (const auto* wrong = std::get_if<std::string>(&result)) {
    test::require(!wrong->empty() && wrong->find('\n') == std::string::npos,
                  "an error is one line");
    return 0;
  }
  // A model that was read can be written and read again.
  const std::string json = replay::to_json(std::get<replay::CostModel>(result));
  test::require(std::holds_alternative<replay::CostModel>(replay::parse_cost_model(json)),
                "the written model cannot be read");
  return 0;
}
