// Rules that give each thread of an imported run a processor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/processor.h"
#include "import/access_source.h"

namespace wherry::importing {

// "host", "dev0" or a number, which is 0 for the host and 1 + d for device d. Nullopt if it is none
// of these.
std::optional<int> processor_of(std::string_view text);

// "THREAD=PROCESSOR". THREAD is a pattern, as shells have for files, of the thread's number or its
// name.
struct ProcessorRule {
  std::string thread;
  int processor = 0;
};
// Returns the rule, or the error.
std::variant<ProcessorRule, std::string> parse_rule(const std::string& text);

// Gives each access a processor: that of the first rule for its thread; without a rule the one that
// it has, or the host. Returns how many accesses each rule is for.
std::vector<std::uint64_t> assign(Accesses& accesses, const std::vector<ProcessorRule>& rules);

}  // namespace wherry::importing
