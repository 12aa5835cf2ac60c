#include "machine/visible_devices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "machine/device_uuid.h"

namespace wherry::impl {
namespace {

constexpr std::string_view uuid_prefix = "GPU-";

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool begins_with(std::string_view text, std::string_view beginning) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return beginning.size() <= text.size() &&
         std::equal(beginning.begin(), beginning.end(), text.begin(), same);
}

std::optional<std::size_t> by_uuid(std::string_view name, const std::vector<std::string>& uuids) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (!begins_with(uuids[i], name)) continue;
    if (found) return std::nullopt;  // it could be either
    found = i;
  }
  return found;
}

std::optional<std::size_t> by_number(std::string_view name, std::size_t devices) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_device =
      error == std::errc{} && end == name.data() + name.size() && number < devices;
  return is_device ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<std::size_t> visible_devices(std::string_view list,
                                         const std::vector<std::string>& uuids) {
  std::vector<std::size_t> visible;
  for (;;) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view name = trimmed(list.substr(0, end));
    const auto device =
        begins_with(name, uuid_prefix) ? by_uuid(name, uuids) : by_number(name, uuids.size());
    if (!device) return visible;
    if (std::ranges::find(visible, *device) != visible.end()) return {};
    visible.push_back(*device);
    if (end == list.size()) return visible;
    list.remove_prefix(end + 1);
  }
}

void keep_visible(Topology& topology, const char* list) {
  if (list == nullptr) return;
  std::vector<std::string> uuids;
  for (const DeviceConfig& device : topology.devices)
    uuids.push_back(uuid_text(device_uuid(device.number)));
  std::vector<DeviceConfig> kept;
  for (const std::size_t place : visible_devices(list, uuids))
    kept.push_back(topology.devices[place]);
  topology.devices = std::move(kept);
}

}  // namespace wherry::impl
