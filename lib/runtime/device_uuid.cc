#include "runtime/device_uuid.h"

#include <fmt/core.h>

#include <cstdint>
#include <cstring>

#include "os/process/boot_id.h"

namespace wherry::impl {

// The boot's number with the device's mixed in, marked as a number of our own making (version 8).
CUuuid device_uuid(int number) {
  auto bytes = read_boot_id();
  bytes[0] = static_cast<std::uint8_t>(bytes[0] ^ (number + 1));
  bytes[6] = static_cast<std::uint8_t>(0x80 | (bytes[6] & 0x0f));
  bytes[8] = static_cast<std::uint8_t>(0x80 | (bytes[8] & 0x3f));
  CUuuid uuid;
  static_assert(sizeof uuid.bytes == sizeof bytes);
  std::memcpy(uuid.bytes, bytes.data(), sizeof uuid.bytes);
  return uuid;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<std::uint8_t>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace wherry::impl
