#include "trace/trace_bytes.h"

#include <zlib.h>

namespace wherry::impl {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  // zlib returns its initial value for a null pointer, not `before`.
  if (bytes.empty()) return before;
  // crc32_z and not ::crc32: a program that defines a function named crc32 and exports it would
  // replace zlib's here. Neither function allocates memory.
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace wherry::impl
