// A place in the address space where stretches of a file are shown for as long as a copy takes.
// Never a whole pool at once: pages that the file lacks would come into being where somebody locks
// the program's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/memory/mapping.h"

namespace wherry::impl {

class FileWindow {
 public:
  // Shows up to `bytes`, placed as they lie in the file with respect to multiples of `bytes` (a
  // power of two). Throws std::system_error.
  explicit FileWindow(std::size_t bytes) : place_(Mapping::reserve(bytes, bytes)) {}

  enum class Use {
    reading,
    creating_small_pages,
    creating_pages,  // huge ones where the file has such
  };
  // Shows [offset, offset + bytes) of the file, instead of what was shown before; not inherited by
  // fork(). Requires: no multiple of the window's size lies inside. Returns 0 or an errno.
  [[nodiscard]] int show(int fd, std::uint64_t offset, std::size_t bytes, Use use);
  void hide();

  // What is shown.
  std::span<std::byte> shown() const { return shown_; }

 private:
  Mapping place_;
  std::span<std::byte> shown_;
};

}  // namespace wherry::impl
