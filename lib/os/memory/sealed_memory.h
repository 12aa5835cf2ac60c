// Files in memory that processes hand each other, and that nobody can make shorter behind another
// one's back: mapped, that would end whoever looks.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

// A file of these bytes that nobody can change. Throws std::system_error.
Fd make_sealed_file(const std::string& name, std::span<const std::byte> content);

// A file of a fixed size that is mapped, to be read and written by all who have it. Not inherited
// by fork().
class SealedMemory {
 public:
  SealedMemory() = default;
  // All zero. Throws std::system_error.
  SealedMemory(const std::string& name, std::size_t bytes);
  // A file that somebody else has made so. Empty: it is none, or of another size. Throws
  // std::system_error.
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
  // From now on fd() is of another open file description; the first one is the mapping's alone, and
  // a child has nothing of it. Throws std::system_error.
  void reopen();

 private:
  SealedMemory(Fd file, std::size_t bytes);

  Fd file_;
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace wherry::impl
