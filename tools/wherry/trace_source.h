// Reads the numbers of which a trace consists (trace/trace_bytes.h). Never reads past the end; an
// attempt to do so makes the source not good().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace wherry::tool {

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

}  // namespace wherry::tool
