// A processor is the host (0) or a device (1 + ordinal). The number indexes every per-processor
// array and is the bit in every processor mask. Only this file converts it from and to the API's
// device numbers (host = -1).
#pragma once

#include <bit>
#include <cstdint>

namespace wherry::impl {

inline constexpr int max_devices = 8;
inline constexpr int max_processors = 1 + max_devices;

using ProcessorMask = std::uint32_t;

struct Processor {
  int index = 0;

  static constexpr Processor host() { return {0}; }
  static constexpr Processor device(int ordinal) { return {1 + ordinal}; }
  constexpr bool is_host() const { return index == 0; }
  constexpr int ordinal() const { return index - 1; }  // -1 for the host, like CU_DEVICE_CPU
  constexpr ProcessorMask bit() const { return ProcessorMask{1} << index; }
  constexpr bool operator==(const Processor&) const = default;
};

// Returns `p` if the mask contains it, otherwise the first processor of the mask. Requires: the
// mask is not empty.
constexpr Processor closest_of(ProcessorMask mask, Processor p) {
  return (mask & p.bit()) != 0 ? p : Processor{std::countr_zero(mask)};
}

}  // namespace wherry::impl
