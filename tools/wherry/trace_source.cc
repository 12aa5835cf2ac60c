#include "trace_source.h"

namespace wherry::tool {

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
    // Of the tenth byte only one bit fits into the number.
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

}  // namespace wherry::tool
