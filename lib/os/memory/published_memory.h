// Memory that this process writes and other processes, mainly its devices, only read: a mapped
// memfd whose name appears in /proc/PID/maps. Initially zero. Linux refuses write access to other
// processes, even if they request it with mprotect().
#pragma once

#include <cstddef>
#include <string>

#include "os/files/fd.h"

namespace wherry::impl {

class PublishedMemory {
 public:
  // `kept` receives the memfd, by which processes that are permitted to open this process's files
  // can read the memory; if it is null, the memfd is closed. Throws std::system_error.
  PublishedMemory(const std::string& name, std::size_t bytes, Fd* kept = nullptr);
  ~PublishedMemory();
  PublishedMemory(const PublishedMemory&) = delete;
  PublishedMemory& operator=(const PublishedMemory&) = delete;

  // The writable mapping; not inherited by processes forked from this one.
  void* data() const { return start_; }
  // The read-only mapping of the same bytes; inherited by forked processes, at the same address.
  const void* shown() const { return shown_; }

 private:
  const std::size_t bytes_;
  void* start_ = nullptr;
  void* shown_ = nullptr;
};

}  // namespace wherry::impl
