#include "os/process/boot_id.h"

#include <fstream>
#include <string>

namespace wherry::impl {

namespace {

// Requires: `digit` is hexadecimal.
std::uint8_t hex_value(char digit) {
  return static_cast<std::uint8_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

}  // namespace

std::array<std::uint8_t, 16> read_boot_id() {
  std::array<std::uint8_t, 16> id{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  if (text.size() != 2 * id.size() ||
      text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    return id;
  }
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::uint8_t>(hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
  }
  return id;
}

}  // namespace wherry::impl
