// A range of a file, and the addresses at which processors see it.
#pragma once

#include <cstdint>
#include <memory>

#include "os/files/fd.h"

namespace wherry::impl {

struct FileMapping {
  std::uint64_t start = 0;  // address
  std::uint64_t bytes = 0;
  std::shared_ptr<const Fd> file;
  std::uint64_t offset = 0;  // offset in the file of the first byte

  std::uint64_t end() const { return start + bytes; }
  std::uint64_t offset_of(std::uint64_t address) const { return offset + (address - start); }
};

}  // namespace wherry::impl
