// The encoding of a trace: bytes, little-endian words, and variable-length integers (LEB128; signed
// integers zigzag-encoded first). Writing appends. Reading never goes past the end; an attempt to
// do so makes the source not good().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
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
  // 4 bytes.
  void put_word(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) put_byte(static_cast<std::uint8_t>(value >> shift));
  }
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_byte(static_cast<std::uint8_t>(value | 0x80));
    put_byte(static_cast<std::uint8_t>(value));
  }
  // The signed difference of two numbers, modulo 2^64.
  void put_step(std::uint64_t from, std::uint64_t to) {
    const std::uint64_t step = to - from;
    put((step << 1) ^ (0 - (step >> 63)));
  }
  // The length, then the bytes.
  void put_text(std::string_view text) {
    put(text.size());
    for (const char letter : text) put_byte(static_cast<std::uint8_t>(letter));
  }

 private:
  Bytes& bytes_;
};
using TraceSink = BasicTraceSink<TraceBytes>;

class TraceSource {
 public:
  explicit TraceSource(std::span<const std::byte> bytes) : left_(bytes) {}

  // After a read past the end, or of a malformed number, all of these return 0 or an empty string.
  std::uint8_t take_byte();
  std::uint32_t take_word();
  std::uint64_t take();
  std::uint64_t take_step(std::uint64_t from);
  std::string take_text();
  // Reads a number that must be at most `most`, which must fit `Number`. A larger number makes the
  // source not good().
  template <typename Number>
  Number take_up_to(Number most) {
    const std::uint64_t value = take();
    if (value > static_cast<std::uint64_t>(most)) good_ = false;
    return good_ ? static_cast<Number>(value) : Number{};
  }

  bool good() const { return good_; }
  bool empty() const { return left_.empty(); }
  std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
  bool good_ = true;
};

// CRC-32 as in zlib, PNG and Ethernet. `before`: the checksum of the bytes that precede these.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace wherry::impl
