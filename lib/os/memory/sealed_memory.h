// In-memory files that processes pass to each other. They are sealed, so no process can shrink
// them: an access to a mapping of a file that has shrunk ends the accessing process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// Creates an immutable file with this content. Throws std::system_error.
Fd make_sealed_file(const std::string& name, std::span<const std::byte> content);

// A mapped file of fixed size that all its holders read and write. The mapping is not inherited by
// fork().
class SealedMemory {
 public:
  SealedMemory() = default;
  // Creates a file of zeros. Throws std::system_error.
  SealedMemory(const std::string& name, std::size_t bytes);
  // Maps a file that another process created in this way. The result is empty if the file was
  // created differently or has another size. Throws std::system_error.
  static SealedMemory of(Fd file, std::size_t bytes);
  SealedMemory(SealedMemory&& other) noexcept
      : file_(std::move(other.file_)),
        start_(std::exchange(other.start_, nullptr)),
        bytes_(other.bytes_) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SealedMemory();

  explicit operator bool() const { return start_ != nullptr; }
  void* data() const { return start_; }
  int fd() const { return file_.get(); }
  // Replaces fd() by a descriptor of another open file description. Then only the mapping, which
  // children do not inherit, keeps the first description and its marks (os/files/range_mark.h).
  // Throws std::system_error.
  void reopen();

 private:
  SealedMemory(Fd file, std::size_t bytes);

  Fd file_;
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace wherry::impl
