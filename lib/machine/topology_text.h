// The grammar of WHERRY_DEVICES, WHERRY_HOST_NODES, WHERRY_HOST_CAPACITY and WHERRY_ARENA. Turns
// text into values with their positions, or into error lines that show the place. Does not know the
// machine.
//   WHERRY_DEVICES     device (';' device)*    device: key '=' value (',' key '=' value)*
//                      blanks are ignored
//                      node=N  capacity=BYTES[K|M|G|T]  workers=N  kind=isolated|coherent
//                      concurrent=0|1
//   WHERRY_HOST_NODES  range (',' range)*      range: N | N '-' N
//   WHERRY_HOST_CAPACITY, WHERRY_ARENA  BYTES[K|M|G|T]
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "machine/device_kind.h"

namespace wherry::impl {

inline constexpr std::size_t min_capacity = std::size_t{2} << 20;  // one block
inline constexpr int max_workers = 1024;

// A value, and its position in the text: some values turn out to be wrong only when they are
// compared with the machine.
template <typename T>
struct Placed {
  T value{};
  std::size_t position = 0;
};

// A device as requested. If a value is absent, the library chooses it.
struct DeviceRequest {
  std::size_t position = 0;
  std::optional<Placed<int>> node;
  std::optional<Placed<std::size_t>> capacity;  // at least min_capacity, whole pages
  std::optional<int> workers;
  std::optional<DeviceKind> kind;
  bool concurrent = true;
};

using DeviceRequests = std::variant<std::vector<DeviceRequest>, std::string>;
using NodeList = std::variant<std::vector<Placed<int>>, std::string>;
using SizeText = std::variant<std::optional<Placed<std::size_t>>, std::string>;

// Return values or one error line. Text of blanks only gives an empty vector, or nullopt.
DeviceRequests parse_devices(std::string_view text);
NodeList parse_host_nodes(std::string_view text);
// Parses a size of whole pages, at least min_capacity; `text` is the value of `variable`.
SizeText parse_size(std::string_view variable, std::string_view text);

// "<variable>: <what> at character <position + 1> in "...>>>here...""; always one printable line.
std::string topology_error(std::string_view variable, std::string_view text, std::size_t position,
                           std::string_view what);

}  // namespace wherry::impl
