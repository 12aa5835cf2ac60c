// What one call asked to have copied, or filled: rows of bytes, the same on both sides. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/processor.h"
#include "memory/file_part.h"

namespace wherry::impl {

struct CopyRequest {
  enum class Memory {
    host,     // of this process, if it exists
    managed,  // of the arena; its pages move
    device,   // of the arena; in the owner's pool for good
    files,    // of the annex; in files for good, wherever this process sees them, if at all
  };
  struct Side {
    Memory memory = Memory::host;
    std::uint64_t start = 0;  // an address, or bytes from the arena's base where it is of that
    std::uint64_t pitch = 0;  // bytes from row to row
    std::uint64_t layer = 0;  // ... from layer to layer of rows
    Processor owner = {};
    std::uint64_t allocation =
        0;  // of the arena: its id; what comes to lie there later is not meant
    // Where the bytes are, of files: by address, and without a gap between.
    std::shared_ptr<const std::vector<FilePart>> parts = {};
  };

  Side to;
  Side from;
  // Owns the bytes of `from` if they are in memory of the library's own (StagingMemory).
  std::shared_ptr<const std::byte> staged = {};
  // In place of `from`: written again and again. A multiple of what is repeated.
  std::shared_ptr<const std::vector<std::byte>> pattern;
  std::uint64_t width = 0;  // bytes of a row
  std::uint64_t rows = 1;   // of a layer
  std::uint64_t layers = 1;
  // Where pages of `to` are created that do not exist, unless the program prefers a place.
  Processor home = {};

  std::uint64_t bytes() const { return width * rows * layers; }
};

}  // namespace wherry::impl
