#include "machine/copy_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/environment.h"
#include "base/mpi_rank.h"

namespace wherry::impl {
namespace {

constexpr unsigned copiers_max = 16;

}  // namespace

std::string huge_pages_setting(bool serves_system_calls) {
  std::string value = environment("WHERRY_HUGE_PAGES");
  if (value.empty() && is_started_by_mpi() && !serves_system_calls) value = "never";
  return value;
}

std::variant<CopySettings, std::string> choose_copy_settings(std::string_view copiers,
                                                             std::string_view huge_pages,
                                                             std::size_t cpus) {
  CopySettings settings;
  settings.copiers = static_cast<unsigned>(std::clamp<std::size_t>(cpus, 1, copiers_max));
  if (!copiers.empty()) {
    const char* const end = copiers.data() + copiers.size();
    const auto [parsed, error] = std::from_chars(copiers.data(), end, settings.copiers);
    if (error != std::errc() || parsed != end || settings.copiers < 1 ||
        settings.copiers > copiers_max)
      return fmt::format("WHERRY_COPIERS: '{}' is not a number from 1 to {}", copiers, copiers_max);
  }
  // With two copiers, one writes and the other has Linux create pages: nothing is gained by a
  // second file.
  if (settings.copiers > 2) settings.pool_files = std::bit_floor(settings.copiers);
  if (huge_pages == "never")
    settings.huge_pages = HugePages::never;
  else if (huge_pages == "arriving")
    settings.consolidates = false;
  else if (!huge_pages.empty() && huge_pages != "auto")
    return fmt::format("WHERRY_HUGE_PAGES: '{}' is not 'auto', 'arriving' or 'never'", huge_pages);
  return settings;
}

}  // namespace wherry::impl
