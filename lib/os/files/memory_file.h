// A named in-memory file, as pools use it: sparse, as large as the arena, holes punched page by
// page. With 2 MiB pages where the kernel can make some: on a tmpfs of its own, which is attached
// nowhere, so that the program's mounts stay as they are, or as a memfd where the machine is set up
// so; else a plain memfd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "os/files/fd.h"
#include "os/files/file_identity.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

enum class HugePages {
  never,
  if_possible,
};

class MemoryFile {
 public:
  // Shows as /memfd:NAME or /NAME in /proc/PID/maps and behind the descriptor. Throws
  // std::system_error.
  MemoryFile(const std::string& name, std::size_t bytes, HugePages wanted);

  int fd() const { return fd_.get(); }
  // Whether pages may come as huge ones. Then a write, or a touch through a mapping that permits
  // it, can create the whole 2 MiB around it: both only where all of that shall exist.
  bool has_huge_pages() const { return huge_; }
  // Frees the pages and removes them from every page table of every process. Returns 0 or an errno.
  [[nodiscard]] int punch(std::uint64_t offset, std::uint64_t bytes) const;
  // Creates the pages of this part that there are not yet. Returns 0 or an errno: ENOSPC, ENOMEM.
  [[nodiscard]] int allocate(std::uint64_t offset, std::uint64_t bytes) const;
  // Reads from the file; what it does not hold is zero. False: not all of it.
  [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> to) const;
  // Whether this is a mapping of it.
  bool is_shown_by(const MappedRange& mapping) const;
  // Pages that are created in this part of the file from now on lie on one of `nodes` if there is
  // room. Through a mapping that lives as long as the call: a lasting one would be split at the
  // borders of every policy. Returns 0 or an errno.
  [[nodiscard]] int prefer_nodes(std::uint64_t offset, std::uint64_t bytes,
                                 std::span<const int> nodes) const;
  // ... and only there.
  [[nodiscard]] int bind_nodes(std::uint64_t offset, std::uint64_t bytes,
                               std::span<const int> nodes) const;
  // The first byte of a page that the file holds in [offset, end); `end`: it holds none.
  std::uint64_t first_data(std::uint64_t offset, std::uint64_t end) const;
  // Bytes that the file really holds, as the kernel counts them.
  std::uint64_t allocated_bytes() const;

  // Whether a tmpfs of one's own with huge pages can be had.
  static bool can_use_huge_tmpfs();
  // Whether this kernel leaves the holes of a file with huge pages alone (before Linux 6.4 or so it
  // fills them, as it likes, when it merges pages). Found out by trying, once.
  static bool kernel_keeps_holes();

 private:
  Fd fd_;
  FileIdentity identity_;
  bool huge_ = false;
};

// The name and the size of the file behind a descriptor, if it is one that MemoryFile made, in this
// process or another one.
struct FoundMemoryFile {
  std::string name;
  std::size_t bytes = 0;
};
std::optional<FoundMemoryFile> find_memory_file(int fd);

}  // namespace wherry::impl
