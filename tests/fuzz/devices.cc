// WHERRY_DEVICES, WHERRY_HOST_NODES and sizes (WHERRY_HOST_CAPACITY, WHERRY_ARENA). The first byte
// selects which.
#include <algorithm>
#include <variant>

#include "fuzz/target.h"
#include "machine/topology_text.h"

namespace {

using namespace wherry;

void look_at_error(const std::string& line) {
  test::require(!line.empty(), "an error without a reason");
  test::require(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }),
                "an error is one printable line");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = test::text_of(data + 1, size - 1);
  if (data[0] % 3 == 0) {
    const auto devices = impl::parse_devices(text);
    if (const auto* wrong = std::get_if<std::string>(&devices)) return look_at_error(*wrong), 0;
    for (const auto& device : std::get<std::vector<impl::DeviceRequest>>(devices)) {
      test::require(!device.capacity || (device.capacity->value >= impl::min_capacity &&
                                         device.capacity->value % 4096 == 0 &&
                                         device.capacity->position <= text.size()),
                    "an invalid capacity");
      test::require(
          !device.workers || (*device.workers > 0 && *device.workers <= impl::max_workers),
          "an invalid number of workers");
      test::require(!device.node || device.node->value >= 0, "an invalid node");
    }
  } else if (data[0] % 3 == 1) {
    const auto nodes = impl::parse_host_nodes(text);
    if (const auto* wrong = std::get_if<std::string>(&nodes)) look_at_error(*wrong);
  } else {
    const auto capacity = impl::parse_size("WHERRY_HOST_CAPACITY", text);
    if (const auto* wrong = std::get_if<std::string>(&capacity)) look_at_error(*wrong);
  }
  return 0;
}
