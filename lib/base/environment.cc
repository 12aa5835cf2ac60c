#include "base/environment.h"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/log.h"
#include "base/nearest_word.h"

namespace wherry::impl {
namespace {

constexpr std::string_view our_prefix = "WHERRY_";
constexpr std::string_view test_prefix = "WHERRY_TEST_";
// Longer names are cut, so that the log entry stays on one line. They are no misspelt settings.
constexpr std::size_t name_length_max = 64;

// Returns an empty name if no known name is close enough.
std::string_view nearest_name(std::string_view unknown) {
  std::vector<std::string_view> known;
  for (const EnvironmentVariable& variable : environment_variables)
    if (variable.name.starts_with(our_prefix)) known.push_back(variable.name);
  return nearest_word(unknown, known, misspelt_max(unknown.size() - our_prefix.size()));
}

std::string unknown_text(std::string_view name) {
  std::string printable(name.substr(0, name_length_max));
  std::ranges::replace_if(
      printable, [](char c) { return c < ' ' || c > '~'; }, '?');
  const std::string_view nearest = nearest_name(printable);
  return nearest.empty()
             ? fmt::format("{} is not a setting of Wherry: docs/tuning.md lists them", printable)
             : fmt::format("{} is not a setting of Wherry: did you mean {}?", printable, nearest);
}

const EnvironmentVariable* find_variable(std::string_view name) {
  const auto* const found =
      std::ranges::find(environment_variables, name, &EnvironmentVariable::name);
  return found == std::end(environment_variables) ? nullptr : found;
}

}  // namespace

const char* environment_value(EnvironmentName name) {
  // The names are string literals, so data() is null-terminated.
  const char* const text = name.row().name.data();
  return name.row().read_when_privileged ? std::getenv(text) : ::secure_getenv(text);
}

std::string environment(EnvironmentName name) {
  const char* const value = environment_value(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> settings_in_environment() {
  std::vector<std::string> settings;
  for (const char* const* line = environ; line != nullptr && *line != nullptr; ++line)
    if (std::string_view(*line).starts_with(our_prefix)) settings.emplace_back(*line);
  std::ranges::sort(settings);
  return settings;
}

std::vector<std::string> environment_complaints(const char* const* lines, bool privileged) {
  std::vector<std::string> complaints;
  std::string not_read;
  for (; lines != nullptr && *lines != nullptr; ++lines) {
    const std::string_view line(*lines);
    const std::string_view name = line.substr(0, line.find('='));
    if (!name.starts_with(our_prefix) || name.starts_with(test_prefix)) continue;
    if (const EnvironmentVariable* const variable = find_variable(name); variable == nullptr)
      complaints.push_back(unknown_text(name));
    else if (privileged && !variable->read_when_privileged)
      not_read.append(not_read.empty() ? "" : ", ").append(variable->name);
  }
  if (!not_read.empty())
    complaints.push_back(fmt::format(
        "{}: not read: this program has privileges that its user does not have (set-uid, set-gid "
        "or file capabilities)",
        not_read));
  return complaints;
}

void complain_about_environment() {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  for (const std::string& complaint : environment_complaints(environ, ::getauxval(AT_SECURE) != 0))
    log_line("{}", complaint);
}

}  // namespace wherry::impl
