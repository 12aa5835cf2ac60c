// Memory shared between this process and its forked children: a mapped memfd whose name appears in
// /proc/PID/maps. Initially zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "os/memory/mapping.h"

namespace wherry::impl {

// Maps an in-memory file with the properties of the library's own mappings: not locked by
// mlockall(), and not in core dumps. `name` is for error messages. Throws std::system_error.
[[nodiscard]] void* map_shared(int fd, std::size_t bytes, Access access, const std::string& name);

class SharedMemory {
 public:
  SharedMemory() = default;
  // Throws std::system_error.
  SharedMemory(const std::string& name, std::size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();

  void* data() const { return start_; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(start_); }
  std::size_t size() const { return bytes_; }
  // Processes forked from now on do not inherit the memory.
  void hide_from_forks() const;

 private:
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace wherry::impl
