// What the C functions that copy and fill have in common: what a pointer means, and how the work
// gets into its stream.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "api/entry.h"
#include "migration/copy_request.h"

namespace wherry::impl {

inline constexpr std::size_t max_pitch = std::numeric_limits<std::int32_t>::max();

// What a pointer has to be.
enum class Role {
  any,
  host,    // memory that the host may touch
  device,  // memory that the library knows
};

// One end of a copy as a function was given it.
struct End {
  Role role = Role::any;
  std::uintptr_t address = 0;  // of the first byte
  std::size_t pitch = 0;
  std::size_t layer = 0;  // bytes from layer to layer
  // Which device must have access to memory that not every device has; nothing: the stream's.
  std::optional<int> device = {};
};

// Whether the calling thread waits.
enum class Timing {
  synchronous,
  asynchronous,
};

// The bytes of all rows.
struct Extent {
  std::size_t width = 0;
  std::size_t rows = 1;
  std::size_t layers = 1;

  bool is_empty() const { return width == 0 || rows == 0 || layers == 0; }
};

CUresult copy(Driver& driver, CUstream stream, Timing timing, const End& to, const End& from,
              const Extent& extent);
// Repeats the `size` lowest bytes of `value`.
CUresult fill(Driver& driver, CUstream stream, Timing timing, const End& to, const Extent& extent,
              std::uint32_t value, unsigned size);

}  // namespace wherry::impl
