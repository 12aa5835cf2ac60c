// A value: the copy or fill that one call requests, of as many rows of bytes on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/processor.h"
#include "memory/file_mapping.h"

namespace wherry::impl {

struct CopyRequest {
  enum class Memory {
    host,     // this process's memory, if there is any at the address
    managed,  // in the arena; its pages move
    device,   // in the arena; always in the owner's pool
    files,    // in the annex; always in files, which this process need not have mapped
  };
  struct Side {
    Memory memory = Memory::host;
    std::uint64_t start = 0;  // an address; in the arena: bytes from its base
    std::uint64_t pitch = 0;  // bytes from row to row
    std::uint64_t layer = 0;  // bytes from layer to layer of rows
    Processor owner = {};
    // In the arena: the allocation's id, to recognize a later allocation at the same place.
    std::uint64_t allocation = 0;
    // In files: the mappings that contain the bytes, by address, without gaps.
    std::shared_ptr<const std::vector<FileMapping>> mappings = {};
  };

  Side to;
  Side from;
  // Owns the bytes of `from` if they are in memory of the library's own (StagingMemory).
  std::shared_ptr<const std::byte> staged = {};
  // If set, it is written repeatedly in place of `from`. Its size is a multiple of the unit.
  std::shared_ptr<const std::vector<std::byte>> pattern;
  std::uint64_t width = 0;  // bytes of a row
  std::uint64_t rows = 1;   // of a layer
  std::uint64_t layers = 1;
  // Where absent pages of `to` are created if the program has not set a preferred location.
  Processor home = {};

  std::uint64_t bytes() const { return width * rows * layers; }
};

}  // namespace wherry::impl
