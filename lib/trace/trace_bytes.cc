#include "trace/trace_bytes.h"

#include <array>

namespace wherry::impl {
namespace {

constexpr unsigned slices = 8;
using CrcTables = std::array<std::array<std::uint32_t, 256>, slices>;

// tables[k][b] is the effect of byte b on the checksum when k more bytes follow it, so that eight
// bytes can be looked up at once.
constexpr CrcTables make_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320 : 0);
    tables[0][byte] = value;
  }
  for (unsigned k = 1; k < slices; ++k)
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  return tables;
}

constexpr CrcTables crc_tables = make_tables();

constexpr std::uint32_t number_of(std::byte byte) {
  return std::to_integer<std::uint32_t>(byte);
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t sum = ~before;
  for (; bytes.size() >= slices; bytes = bytes.subspan(slices)) {
    std::uint32_t next = 0;
    for (unsigned i = 0; i < slices; ++i) {
      const std::uint32_t mixed = i < 4 ? (sum >> (8 * i)) & 0xff : 0;
      next ^= crc_tables[slices - 1 - i][number_of(bytes[i]) ^ mixed];
    }
    sum = next;
  }
  for (const std::byte byte : bytes)
    sum = (sum >> 8) ^ crc_tables[0][(sum & 0xff) ^ number_of(byte)];
  return ~sum;
}

std::uint8_t TraceSource::take_byte() {
  good_ = good_ && !left_.empty();
  if (!good_) return 0;
  const auto value = std::to_integer<std::uint8_t>(left_.front());
  left_ = left_.subspan(1);
  return value;
}

std::uint32_t TraceSource::take_word() {
  std::uint32_t value = 0;
  for (int shift = 0; shift < 32; shift += 8) value |= std::uint32_t{take_byte()} << shift;
  return good_ ? value : 0;
}

std::uint64_t TraceSource::take() {
  std::uint64_t value = 0;
  for (int shift = 0; good_; shift += 7) {
    const std::uint8_t byte = take_byte();
    // Only one bit fits into the tenth byte.
    if (shift > 63 || (shift == 63 && byte > 1)) good_ = false;
    if (!good_) break;
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return 0;
}

std::uint64_t TraceSource::take_step(std::uint64_t from) {
  const std::uint64_t coded = take();
  const std::uint64_t step = (coded >> 1) ^ (0 - (coded & 1));
  return good_ ? from + step : 0;
}

std::string TraceSource::take_text() {
  const std::uint64_t length = take();
  good_ = good_ && length <= left_.size();
  if (!good_) return {};
  std::string text(reinterpret_cast<const char*>(left_.data()), length);
  left_ = left_.subspan(length);
  return text;
}

}  // namespace wherry::impl
