// The encoding of a trace: bytes, little-endian words, and variable-length integers (LEB128; signed
// integers zigzag-encoded first). Writing appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace wherry::impl {

using TraceBytes = std::vector<std::byte>;

// Appends to `Bytes`, a type with push_back().
template <typename Bytes>
class BasicTraceSink {
 public:
  explicit BasicTraceSink(Bytes& bytes) : bytes_(bytes) {}

  void put_byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  // Writes 4 bytes.
  void put_word(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) put_byte(static_cast<std::uint8_t>(value >> shift));
  }
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_byte(static_cast<std::uint8_t>(value | 0x80));
    put_byte(static_cast<std::uint8_t>(value));
  }
  // Writes the signed difference, modulo 2^64.
  void put_step(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t step = to - from;
    put((step << 1) ^ (0 - (step >> 63)));
  }
  // Writes the length, then the bytes.
  void put_text(std::string_view text) {
    put(text.size());
    for (const char letter : text) put_byte(static_cast<std::uint8_t>(letter));
  }

 private:
  Bytes& bytes_;
};
using TraceSink = BasicTraceSink<TraceBytes>;

// CRC-32 as in zlib, PNG and Ethernet. `before`: the checksum of the bytes that precede these.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace wherry::impl
