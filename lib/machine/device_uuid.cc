#include "machine/device_uuid.h"

#include <fmt/core.h>

#include "os/process/boot_id.h"

namespace wherry::impl {

// The boot id with the device's number mixed in, marked as a custom UUID (version 8).
DeviceUuid device_uuid(int number) {
  DeviceUuid bytes = read_boot_id();
  bytes[0] = static_cast<std::uint8_t>(bytes[0] ^ (number + 1));
  bytes[6] = static_cast<std::uint8_t>(0x80 | (bytes[6] & 0x0f));
  bytes[8] = static_cast<std::uint8_t>(0x80 | (bytes[8] & 0x3f));
  return bytes;
}

std::string uuid_text(const DeviceUuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

}  // namespace wherry::impl
