#include "run/settings.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "base/environment.h"

namespace wherry::run {
namespace {

const Settings* the_settings = nullptr;

template <typename Number>
void parse(std::string_view text, Number& number) {
  std::from_chars(text.data(), text.data() + text.size(), number);
}

std::optional<Settings> read() {
  const char* const value = impl::environment_value("WHERRY_RUN");
  if (value == nullptr) return std::nullopt;
  Settings settings;
  for (std::string_view left = value; !left.empty();) {
    const std::string_view part = left.substr(0, left.find(';'));
    left.remove_prefix(part.size() == left.size() ? part.size() : part.size() + 1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = part.substr(0, equals);
    const std::string_view text = part.substr(equals + 1);
    if (name == "min") parse(text, settings.min_bytes);
    if (name == "tool") parse(text, settings.tool);
    if (name == "attach") settings.attach = text;
    if (name == "reports") settings.reports = text;
    if (name == "children") settings.records_children = text == "1";
  }
  return settings;
}

}  // namespace

void read_settings() {
  // Never destroyed: the program allocates until its end.
  static std::optional<Settings>& kept = *new std::optional<Settings>(read());
  if (kept) the_settings = &*kept;
}

const Settings* settings() {
  return the_settings;
}

}  // namespace wherry::run
