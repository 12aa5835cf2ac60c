// Common parts of the C functions that copy and fill: checking what a pointer refers to, and
// putting the work into its stream.
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

// What kind of memory a pointer must refer to.
enum class Role {
  any,
  host,    // memory that the host may access
  device,  // memory that the library knows
};

// One end of a copy, as passed to the C function.
struct End {
  Role role = Role::any;
  std::uintptr_t address = 0;  // of the first byte
  std::size_t pitch = 0;
  std::size_t layer = 0;  // bytes from one layer to the next
  // The device that must have access to the memory; nullopt means the stream's device.
  std::optional<int> device = {};
};

// Whether the calling thread waits for the copy.
enum class Timing {
  synchronous,
  asynchronous,
};

// The size of the memory to copy or fill: bytes of a row, rows of a layer, layers.
struct Extent {
  std::size_t width = 0;
  std::size_t rows = 1;
  std::size_t layers = 1;

  bool is_empty() const { return width == 0 || rows == 0 || layers == 0; }
};

// A checked copy or fill.
struct PlannedCopy {
  // The memory that a pointer refers to.
  struct Found {
    CopyRequest::Side side;
    bool is_known = false;
    bool is_device = false;  // memory of a device, or managed memory
    bool is_managed = false;
    bool sync_memops = false;
  };

  CopyRequest request = {};
  Found there = {};
  Found here = {};
};

// These check what the pointers refer to, for work of `target`. Require: the extent is not empty.
// Return the errors of copy() and fill().
CUresult plan_copy(Driver& driver, const StreamHandle& target, const End& to, const End& from,
                   const Extent& extent, PlannedCopy& plan);
CUresult plan_fill(Driver& driver, const StreamHandle& target, const End& to, const Extent& extent,
                   std::uint32_t value, unsigned size, PlannedCopy& plan);
// Like plan_copy(), for the copy that the structure describes. Returns CUDA_ERROR_INVALID_VALUE if
// that is empty.
CUresult plan_box(Driver& driver, const StreamHandle& target, const CUDA_MEMCPY3D_v2& what,
                  PlannedCopy& plan);
// Returns an asynchronous copy or fill as a value.
GraphWork copy_work(CopyRequest request);

// Finds the stream for a copy or fill.
CUresult find_target(Driver& driver, CUstream argument, Timing timing, WorkStream& target);

CUresult copy(Driver& driver, CUstream stream, Timing timing, const End& to, const End& from,
              const Extent& extent);
// Fills with the `size` lowest bytes of `value`, repeated.
CUresult fill(Driver& driver, CUstream stream, Timing timing, const End& to, const Extent& extent,
              std::uint32_t value, unsigned size);

}  // namespace wherry::impl
