#include "machine/topology_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/page.h"
#include "base/processor.h"

namespace wherry::impl {
namespace {

constexpr std::string_view known_keys = "known: node, capacity, workers, kind, concurrent";
constexpr int max_node = 1023;  // Linux numbers at most 1024 nodes

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// A part of the text that remembers where it stands.
struct Slice {
  std::string_view text;
  std::size_t position = 0;

  Slice part(std::size_t first, std::size_t count = std::string_view::npos) const {
    return {text.substr(first, count), position + first};
  }
};

Slice trim(Slice slice) {
  while (!slice.text.empty() && is_blank(slice.text.front())) slice = slice.part(1);
  while (!slice.text.empty() && is_blank(slice.text.back())) slice.text.remove_suffix(1);
  return slice;
}

std::vector<Slice> split(Slice slice, char separator) {
  std::vector<Slice> parts;
  for (;;) {
    const std::size_t end = slice.text.find(separator);
    parts.push_back(trim(slice.part(0, end)));
    if (end == std::string_view::npos) return parts;
    slice = slice.part(end + 1);
  }
}

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 24;
  return fmt::format("'{}{}'", printable(text.substr(0, longest)),
                     text.size() > longest ? "..." : "");
}

// Carries the first error out of nested parsing.
struct ParseError {
  std::size_t position;
  std::string what;
};

// Accepts digits only: no sign, no blanks, no other base.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int parse_bounded(Slice value, std::string_view key, int lowest, int highest) {
  const std::optional<std::uint64_t> number = parse_number(value.text);
  if (!number || *number < static_cast<std::uint64_t>(lowest) ||
      *number > static_cast<std::uint64_t>(highest)) {
    throw ParseError{value.position, fmt::format("{} must be a number from {} to {}, not {}", key,
                                                 lowest, highest, quote(value.text))};
  }
  return static_cast<int>(*number);
}

int suffix_shift(char suffix) {
  switch (suffix) {
    case 'K':
    case 'k':
      return 10;
    case 'M':
    case 'm':
      return 20;
    case 'G':
    case 'g':
      return 30;
    case 'T':
    case 't':
      return 40;
  }
  return 0;
}

std::size_t parse_bytes(Slice value, std::string_view what) {
  std::string_view digits = value.text;
  const int shift = digits.empty() ? 0 : suffix_shift(digits.back());
  if (shift != 0) digits.remove_suffix(1);
  const std::optional<std::uint64_t> number = parse_number(digits);
  if (!number) {
    throw ParseError{value.position,
                     fmt::format("{} must be bytes, or a number with K, M, G or T, not {}", what,
                                 quote(value.text))};
  }
  if (*number > (std::numeric_limits<std::size_t>::max() >> shift)) {
    throw ParseError{value.position, fmt::format("{} {} is too large", what, quote(value.text))};
  }
  const std::size_t bytes = *number << shift;
  if (bytes < min_capacity) {
    throw ParseError{value.position, fmt::format("{} {} is less than 2M", what, quote(value.text))};
  }
  if (bytes % page_size != 0) {
    throw ParseError{value.position, fmt::format("{} {} is not a multiple of {} bytes", what,
                                                 quote(value.text), page_size)};
  }
  return bytes;
}

DeviceKind parse_kind(Slice value) {
  for (const DeviceKind kind : {DeviceKind::isolated, DeviceKind::coherent})
    if (value.text == to_string(kind)) return kind;
  throw ParseError{value.position,
                   fmt::format("kind must be isolated or coherent, not {}", quote(value.text))};
}

void set_key(DeviceRequest& device, Slice key, Slice value) {
  if (key.text == "node") {
    device.node = {parse_bounded(value, "node", 0, max_node), value.position};
  } else if (key.text == "capacity") {
    device.capacity = {parse_bytes(value, "capacity"), value.position};
  } else if (key.text == "workers") {
    device.workers = parse_bounded(value, "workers", 1, max_workers);
  } else if (key.text == "concurrent") {
    device.concurrent = parse_bounded(value, "concurrent", 0, 1) == 1;
  } else if (key.text == "kind") {
    device.kind = parse_kind(value);
  } else {
    throw ParseError{key.position, fmt::format("unknown key {} ({})", quote(key.text), known_keys)};
  }
}

DeviceRequest parse_device(Slice text) {
  if (text.text.empty()) {
    throw ParseError{text.position, fmt::format("empty device ({})", known_keys)};
  }
  DeviceRequest device;
  device.position = text.position;
  std::vector<std::string_view> seen;
  for (const Slice& pair : split(text, ',')) {
    if (pair.text.empty()) {
      throw ParseError{pair.position, fmt::format("expected key=value ({})", known_keys)};
    }
    const std::size_t equals = pair.text.find('=');
    const Slice key = trim(pair.part(0, equals));
    if (equals == std::string_view::npos) {
      throw ParseError{pair.position, fmt::format("expected key=value, not {} ({})",
                                                  quote(pair.text), known_keys)};
    }
    if (std::find(seen.begin(), seen.end(), key.text) != seen.end()) {
      throw ParseError{key.position, fmt::format("{} is given twice", quote(key.text))};
    }
    seen.push_back(key.text);
    set_key(device, key, trim(pair.part(equals + 1)));
  }
  return device;
}

std::vector<Placed<int>> parse_range(Slice text) {
  const std::size_t dash = text.text.find('-');
  const Slice first_text = trim(text.part(0, dash));
  const int first = parse_bounded(first_text, "a node", 0, max_node);
  if (dash == std::string_view::npos) return {{first, first_text.position}};
  const Slice last_text = trim(text.part(dash + 1));
  const int last = parse_bounded(last_text, "a node", 0, max_node);
  if (last < first) {
    throw ParseError{text.position, fmt::format("range {} runs backwards", quote(text.text))};
  }
  std::vector<Placed<int>> nodes;
  for (int node = first; node <= last; ++node) nodes.push_back({node, text.position});
  return nodes;
}

}  // namespace

std::string topology_error(std::string_view variable, std::string_view text, std::size_t position,
                           std::string_view what) {
  constexpr std::size_t context = 40;
  const std::size_t first = position > context ? position - context : 0;
  const std::string_view before = text.substr(first, position - first);
  const std::string_view after = text.substr(position, context);
  return fmt::format("{}: {} at character {} in \"{}{}>>>{}{}\"", variable, what, position + 1,
                     first > 0 ? "..." : "", printable(before), printable(after),
                     position + after.size() < text.size() ? "..." : "");
}

DeviceRequests parse_devices(std::string_view text) {
  std::vector<DeviceRequest> devices;
  if (trim({text}).text.empty()) return devices;
  try {
    for (const Slice& device : split({text}, ';')) {
      if (devices.size() == max_devices) {
        throw ParseError{device.position, fmt::format("more than {} devices", max_devices)};
      }
      devices.push_back(parse_device(device));
    }
  } catch (const ParseError& error) {
    return topology_error("WHERRY_DEVICES", text, error.position, error.what);
  }
  return devices;
}

SizeText parse_size(std::string_view variable, std::string_view text) {
  const Slice value = trim({text});
  if (value.text.empty()) return std::nullopt;
  try {
    return Placed<std::size_t>{parse_bytes(value, "capacity"), value.position};
  } catch (const ParseError& error) {
    return topology_error(variable, text, error.position, error.what);
  }
}

NodeList parse_host_nodes(std::string_view text) {
  std::vector<Placed<int>> nodes;
  if (trim({text}).text.empty()) return nodes;
  try {
    for (const Slice& range : split({text}, ',')) {
      for (const Placed<int>& node : parse_range(range)) nodes.push_back(node);
    }
  } catch (const ParseError& error) {
    return topology_error("WHERRY_HOST_NODES", text, error.position, error.what);
  }
  return nodes;
}

}  // namespace wherry::impl
