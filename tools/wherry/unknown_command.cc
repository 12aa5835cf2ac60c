#include "unknown_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/nearest_word.h"

namespace wherry::tool {

std::string unknown_command(const CLI::App& app, std::span<const char* const> words) {
  const CLI::App* command = &app;
  std::string so_far = app.get_name();
  for (const std::string_view word : words) {
    const std::vector<const CLI::App*> known = command->get_subcommands({});
    if (known.empty() || word.starts_with('-')) return {};
    const auto found = std::ranges::find(known, word, &CLI::App::get_name);
    if (found != known.end()) {
      command = *found;
      so_far += fmt::format(" {}", word);
      continue;
    }
    std::vector<std::string_view> names;
    for (const CLI::App* const each : known) names.push_back(each->get_name());
    const std::string_view nearest =
        impl::nearest_word(word, names, impl::misspelt_max(word.size()));
    const std::string guess = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
    return fmt::format("there is no command '{} {}'{} (commands: {})", so_far, word, guess,
                       fmt::join(names, ", "));
  }
  return {};
}

}  // namespace wherry::tool
