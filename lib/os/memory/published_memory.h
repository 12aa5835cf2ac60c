// Memory that this process writes and its device processes only read: a mapped memfd whose name
// shows in /proc/PID/maps. Zero at first. Linux itself refuses a device that wants to write there,
// also one that asks mprotect() for it.
#pragma once

#include <cstddef>
#include <string>

namespace wherry::impl {

class PublishedMemory {
 public:
  // Throws std::system_error.
  PublishedMemory(const std::string& name, std::size_t bytes);
  ~PublishedMemory();
  PublishedMemory(const PublishedMemory&) = delete;
  PublishedMemory& operator=(const PublishedMemory&) = delete;

  // To be written to; processes forked from this one do not have it.
  void* data() const { return start_; }
  // The same bytes, to be read; also in processes forked from this one, at the same address.
  const void* shown() const { return shown_; }

 private:
  const std::size_t bytes_;
  void* start_ = nullptr;
  void* shown_ = nullptr;
};

}  // namespace wherry::impl
