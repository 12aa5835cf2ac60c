// A place in the address space where parts of a file are mapped during a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/memory/mapping.h"

namespace wherry::impl {

class FileWindow {
 public:
  // Maps up to `bytes` at a time. A part's address and its file offset are equal modulo `bytes` (a
  // power of two). Throws std::system_error.
  explicit FileWindow(std::size_t bytes) : place_(Mapping::reserve(bytes, bytes)) {}

  enum class Use {
    reading,  // all pages are in the file
    creating_small_pages,
    creating_huge_pages,  // a whole block, all of which shall be created
  };
  // Maps [offset, offset + bytes) of the file in place of the previous part; not inherited by
  // fork(). Requires: no multiple of the window's size lies inside the part. Returns 0 or an errno.
  [[nodiscard]] int show(int fd, std::uint64_t offset, std::size_t bytes, Use use);
  void hide();

  // The memory that is mapped now.
  std::span<std::byte> shown() const { return shown_; }

 private:
  Mapping place_;
  std::span<std::byte> shown_;
};

}  // namespace wherry::impl
